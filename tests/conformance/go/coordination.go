package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// An offset in a job or an answer, as the array [topic, partition, offset, metadata]; the last may be missing.
type offset struct {
	topic     string
	partition int32
	offset    int64
	metadata  string
}

func (o *offset) UnmarshalJSON(data []byte) error {
	return unpacked(data, &o.topic, &o.partition, &o.offset, &o.metadata)
}

// A record to write, as the array [partition, value].
type value struct {
	partition int32
	value     string
}

func (v *value) UnmarshalJSON(data []byte) error { return unpacked(data, &v.partition, &v.value) }

func unpacked(data []byte, fields ...any) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for i, part := range parts {
		if err := json.Unmarshal(part, fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// The jobs about groups and transactions.
func (d *driver) coordination(ctx context.Context, j job) (any, error) {
	switch j.Op {
	case "member_open":
		opened, err := openMember(d.seeds, j)
		d.members[j.ID] = opened
		return nil, err
	case "member_seen":
		return d.members[j.ID].seen(), nil
	case "member_commit":
		return nil, d.members[j.ID].commit(ctx, j)
	case "member_committed":
		return d.committed(ctx, j)
	case "member_close":
		return nil, d.members[j.ID].close()
	case "txn_open":
		opened, err := openTransactor(ctx, d.seeds, j)
		d.transactors[j.ID] = opened
		return nil, err
	case "txn_poll":
		return d.transactors[j.ID].poll(ctx, j.Count)
	case "txn_begin":
		return nil, d.transactors[j.ID].begin()
	case "txn_send":
		return nil, d.transactors[j.ID].send(ctx, j)
	case "txn_end":
		return nil, d.transactors[j.ID].end(ctx, j.Commit == true)
	case "txn_close":
		d.transactors[j.ID].close()
		return nil, nil
	case "stream_open":
		opened, err := openStream(d.seeds, j)
		d.streams[j.ID] = opened
		return nil, err
	case "stream_seen":
		return d.streams[j.ID].seen(), nil
	case "stream_close":
		return nil, d.streams[j.ID].close()
	case "group_offsets":
		return d.groupOffsets(ctx, j.Group)
	case "list_groups":
		return d.listGroups(ctx)
	case "describe_group":
		return d.describeGroup(ctx, j.Group)
	case "delete_group":
		answer, err := d.admin.DeleteGroup(ctx, j.Group)
		if err != nil {
			return nil, err
		}
		return nil, answer.Err
	case "alter_offsets":
		wanted := kadm.Offsets{}
		for _, each := range j.Offsets {
			wanted.AddOffset(each.topic, each.partition, each.offset, -1)
		}
		return nil, d.admin.CommitAllOffsets(ctx, j.Group, wanted)
	case "delete_offsets":
		gone := kadm.TopicsSet{}
		gone.Add(j.Topic, j.Partition)
		answer, err := d.admin.DeleteOffsets(ctx, j.Group, gone)
		if err != nil {
			return nil, err
		}
		return nil, answer.Error()
	case "list_transactions":
		found, err := d.admin.ListTransactions(ctx, nil, nil)
		listed := [][]string{}
		for _, each := range found.Sorted() {
			listed = append(listed, []string{each.TxnID, each.State})
		}
		return listed, err
	case "describe_transaction":
		return d.describeTransaction(ctx, j.TransactionalID)
	case "describe_producers":
		return d.describeProducers(ctx, j)
	}
	return nil, fmt.Errorf("unknown job %q", j.Op)
}

func (d *driver) committed(ctx context.Context, j job) ([][]int64, error) {
	found, err := d.admin.FetchOffsets(ctx, d.members[j.ID].group)
	if err != nil {
		return nil, err
	}
	listed := [][]int64{}
	found.Each(func(each kadm.OffsetResponse) {
		if each.Topic == j.Topic {
			listed = append(listed, []int64{int64(each.Partition), each.At})
		}
	})
	return listed, found.Error()
}

func (d *driver) groupOffsets(ctx context.Context, group string) ([][]any, error) {
	found, err := d.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	listed := [][]any{}
	found.Each(func(each kadm.OffsetResponse) {
		listed = append(listed, []any{each.Topic, each.Partition, each.At, each.Metadata})
	})
	return listed, found.Error()
}

func (d *driver) listGroups(ctx context.Context) ([][]string, error) {
	listed := [][]string{}
	for _, kind := range []string{"classic", "consumer"} {
		found, err := d.admin.ListGroupsByType(ctx, []string{kind})
		if err != nil {
			return nil, err
		}
		for _, each := range found.Sorted() {
			listed = append(listed, []string{each.Group, kind, each.State})
		}
	}
	return listed, nil
}

func (d *driver) describeGroup(ctx context.Context, group string) (any, error) {
	members := []map[string]any{}
	if newer, err := d.admin.DescribeConsumerGroups(ctx, group); err == nil && newer[group].Err == nil {
		for _, each := range newer[group].Members {
			members = append(members, seenMember(each.InstanceID, each.Assignment))
		}
		return map[string]any{"state": newer[group].State, "type": "consumer", "members": members}, nil
	}
	found, err := d.admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	if err := found[group].Err; err != nil {
		return nil, err
	}
	for _, each := range found[group].Members {
		owned := kadm.TopicsSet{}
		if assigned, ok := each.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				owned.Add(topic.Topic, topic.Partitions...)
			}
		}
		members = append(members, seenMember(each.InstanceID, owned))
	}
	return map[string]any{"state": found[group].State, "type": "classic", "members": members}, nil
}

func seenMember(instance *string, owned kadm.TopicsSet) map[string]any {
	return map[string]any{"instance": instance, "partitions": pairsOf(owned)}
}

func pairsOf(set kadm.TopicsSet) [][]any {
	pairs := [][]any{}
	for _, topic := range set.Sorted() {
		for _, partition := range topic.Partitions {
			pairs = append(pairs, []any{topic.Topic, partition})
		}
	}
	return pairs
}

func (d *driver) describeTransaction(ctx context.Context, id string) (any, error) {
	found, err := d.admin.DescribeTransactions(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := found[id].Err; err != nil {
		return nil, err
	}
	return map[string]any{
		"state": found[id].State, "timeout_ms": found[id].TimeoutMillis, "partitions": pairsOf(found[id].Topics),
	}, nil
}

func (d *driver) describeProducers(ctx context.Context, j job) (any, error) {
	asked := kadm.TopicsSet{}
	asked.Add(j.Topic, j.Partition)
	found, err := d.admin.DescribeProducers(ctx, asked)
	if err != nil {
		return nil, err
	}
	partition := found[j.Topic].Partitions[j.Partition]
	listed := []map[string]any{}
	for _, each := range partition.ActiveProducers {
		listed = append(listed, map[string]any{"last_sequence": each.LastSequence})
	}
	return listed, partition.Err
}
