package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How a member takes part in its group.
type terms struct {
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	Pattern     *string  `json:"pattern"`
	Protocol    string   `json:"protocol"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	Instance    *string  `json:"instance"`
	Reset       string   `json:"reset"`
}

type where struct {
	topic     string
	partition int32
}

// One consumer in a group, polled by a goroutine of its own.
type member struct {
	client     *kgo.Client
	group      string
	commitEach bool
	stop       context.CancelFunc
	stopped    chan struct{}

	mu         sync.Mutex // Guards what was seen and not yet asked for.
	assignment map[where]bool
	events     []string
	records    []any
	failure    []any
}

func openMember(seeds []string, j job) (*member, error) {
	t := j.terms
	m := &member{group: t.Group, commitEach: j.Commit == "each", assignment: map[where]bool{}, stopped: make(chan struct{})}
	options := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ConsumerGroup(t.Group),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchIsolationLevel(isolation(j.Isolation)),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.changed("assigned", p) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.changed("lost", p) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, p map[string][]int32) {
			if m.commitEach {
				_ = cl.CommitUncommittedOffsets(ctx)
			}
			m.changed("revoked", p)
		}),
		kgo.BlockRebalanceOnPoll(),
	}
	switch t.Reset {
	case "earliest":
		options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	case "latest":
		options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	default:
		options = append(options, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	}
	if t.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+*t.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(t.Topics...))
	}
	if t.Instance != nil {
		options = append(options, kgo.InstanceID(*t.Instance))
	}
	if j.Commit == "auto" {
		options = append(options, kgo.AutoCommitInterval(100*time.Millisecond))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	if t.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		balancer := kgo.RangeBalancer()
		if t.Protocol == "cooperative" {
			balancer = kgo.CooperativeStickyBalancer()
		}
		options = append(options,
			kgo.Balancers(balancer),
			kgo.SessionTimeout(time.Duration(t.SessionMs)*time.Millisecond),
			kgo.HeartbeatInterval(time.Duration(t.HeartbeatMs)*time.Millisecond),
		)
	}
	var err error
	if m.client, err = kgo.NewClient(options...); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.run(ctx)
	return m, nil
}

func (m *member) run(ctx context.Context) {
	defer close(m.stopped)
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) && !joinsAgain(err) {
				m.failed(err)
			}
		})
		m.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			m.records = append(m.records, []any{r.Topic, r.Partition, r.Offset, string(r.Value)})
		})
		m.mu.Unlock()
		if fetches.NumRecords() > 0 && m.commitEach {
			_ = m.client.CommitUncommittedOffsets(ctx)
		}
		m.client.AllowRebalance()
	}
}

func (m *member) changed(event string, partitions map[string][]int32) {
	if len(partitions) == 0 && event != "assigned" {
		return // It tells of the end of each turn of a rebalance, with nothing to revoke.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, event)
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if event == "assigned" {
				m.assignment[where{topic, number}] = true
			} else {
				delete(m.assignment, where{topic, number})
			}
		}
	}
}

func (m *member) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = []any{codeOf(err), err.Error()}
}

func (m *member) seen() any {
	m.mu.Lock()
	defer m.mu.Unlock()
	owned := [][]any{}
	for each := range m.assignment {
		owned = append(owned, []any{each.topic, each.partition})
	}
	answer := map[string]any{"assignment": owned, "events": m.events, "records": m.records, "error": nil}
	if m.failure != nil {
		answer["error"] = m.failure
	}
	if m.events == nil {
		answer["events"] = []string{}
	}
	if m.records == nil {
		answer["records"] = []any{}
	}
	m.events, m.records = nil, nil
	return answer
}

func (m *member) commit(ctx context.Context, j job) error {
	if j.Offsets == nil {
		return m.client.CommitUncommittedOffsets(ctx)
	}
	wanted := map[string]map[int32]kgo.EpochOffset{}
	texts := map[where]string{}
	for _, each := range j.Offsets {
		if wanted[each.topic] == nil {
			wanted[each.topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[each.topic][each.partition] = kgo.EpochOffset{Epoch: -1, Offset: each.offset}
		texts[where{each.topic, each.partition}] = each.metadata
	}
	// The library leaves metadata to a hook on the request.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			topic := &request.Topics[t]
			for p := range topic.Partitions {
				text := texts[where{topic.Topic, topic.Partitions[p].Partition}]
				topic.Partitions[p].Metadata = &text
			}
		}
		return nil
	})
	done := make(chan error, 1)
	finished := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = firstError(answer)
		}
		done <- err
	}
	if j.Asynchronous {
		m.client.CommitOffsets(ctx, wanted, finished)
	} else {
		m.client.CommitOffsetsSync(ctx, wanted, finished)
	}
	return <-done
}

func firstError(answer *kmsg.OffsetCommitResponse) error {
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) close() error {
	m.stop()
	select {
	case <-m.stopped:
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the poll did not end")
	}
	// Closing leaves too, but does not wait for the answer.
	m.client.AllowRebalance()
	m.client.LeaveGroup()
	m.client.Close()
	return nil
}

// It tells the application of these and then joins again by itself.
func joinsAgain(err error) bool {
	for _, each := range []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress} {
		if errors.Is(err, each) {
			return true
		}
	}
	return false
}

func isolation(name string) kgo.IsolationLevel {
	if name == "read_committed" {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

func codeOf(err error) int {
	var known *kerr.Error
	if errors.As(err, &known) {
		return int(known.Code)
	}
	return -1
}
