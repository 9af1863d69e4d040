// Drives franz-go: one JSON job a line on stdin, one JSON answer a line on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A record in a job or an answer. Byte slices are base64 in JSON, and nil ones are null.
type record struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
	Headers   []pair `json:"headers"`
	Timestamp int64  `json:"timestamp"`
}

// A header, as the array [name, value].
type pair struct {
	name  string
	value []byte
}

func (p pair) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.name, p.value}) }

func (p *pair) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[0], &p.name); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], &p.value)
}

type job struct {
	Op         string            `json:"op"`
	Bootstrap  string            `json:"bootstrap"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Partition  int32             `json:"partition"`
	Configs    map[string]string `json:"configs"`
	Records    []record          `json:"records"`
	Codec      string            `json:"codec"`
	Acks       int               `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Ends       map[int32]int64   `json:"ends"`
	Isolation  string            `json:"isolation"`
	Total      int               `json:"total"`
	Key        string            `json:"key"`
	Value      string            `json:"value"`
	Before     int64             `json:"before"`
	Spec       any               `json:"spec"`

	terms
	ID              string   `json:"id"`
	Commit          any      `json:"commit"`
	Offsets         []offset `json:"offsets"`
	Asynchronous    bool     `json:"asynchronous"`
	TransactionalID string   `json:"transactional_id"`
	TimeoutMs       int      `json:"timeout_ms"`
	Source          string   `json:"source"`
	Count           int      `json:"count"`
	Values          []value  `json:"values"`
	Rate            float64  `json:"rate"`
}

type partitionSeen struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	Isr       []int32 `json:"isr"`
}

type driver struct {
	seeds  []string
	client *kgo.Client
	admin  *kadm.Client

	members     map[string]*member
	transactors map[string]*transactor
	streams     map[string]*stream
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	d := driver{members: map[string]*member{}, transactors: map[string]*transactor{}, streams: map[string]*stream{}}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var j job
		if err := json.Unmarshal(line, &j); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		result, err := d.run(ctx, j)
		cancel()
		if err != nil {
			_ = out.Encode(map[string]any{"error": codeOf(err), "message": fmt.Sprintf("%s: %v", j.Op, err)})
			continue
		}
		_ = out.Encode(map[string]any{"ok": result})
	}
}

func (d *driver) run(ctx context.Context, j job) (any, error) {
	switch j.Op {
	case "connect":
		return nil, d.connect(j)
	case "produce":
		return d.produce(ctx, j)
	case "consume":
		return d.consume(ctx, j)
	case "create_topic":
		configs := map[string]*string{}
		for key, value := range j.Configs {
			configs[key] = kadm.StringPtr(value)
		}
		_, err := d.admin.CreateTopic(ctx, j.Partitions, 1, configs, j.Topic)
		return nil, err
	case "delete_topic":
		_, err := d.admin.DeleteTopic(ctx, j.Topic)
		return nil, err
	case "describe_topic":
		return d.describeTopic(ctx, j.Topic)
	case "describe_topic_partitions":
		return d.describeTopicPartitions(ctx, j.Topic)
	case "add_partitions":
		answers, err := d.admin.UpdatePartitions(ctx, j.Total, j.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	case "alter_config":
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: j.Key, Value: kadm.StringPtr(j.Value)}}
		answers, err := d.admin.AlterTopicConfigs(ctx, change, j.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers[0].Err
	case "describe_config":
		return d.describeConfig(ctx, j.Topic)
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(j.Topic, j.Partition, j.Before, -1)
		answers, err := d.admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		answer, _ := answers.Lookup(j.Topic, j.Partition)
		return answer.LowWatermark, answer.Err
	case "list_offset":
		return d.listOffset(ctx, j)
	case "describe_cluster":
		return d.describeCluster(ctx)
	case "describe_log_dirs":
		return d.describeLogDirs(ctx, j.Topic)
	}
	return d.coordination(ctx, j)
}

func (d *driver) connect(j job) (err error) {
	d.seeds = strings.Split(j.Bootstrap, ",")
	// The default keeps metadata for seconds, so a deleted topic would still be described.
	options := []kgo.Opt{kgo.SeedBrokers(d.seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}
	if d.client, err = kgo.NewClient(options...); err == nil {
		d.admin = kadm.NewClient(d.client)
	}
	return err
}

func (d *driver) produce(ctx context.Context, j job) ([]int64, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(d.seeds...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[j.Codec]),
		kgo.ProducerBatchMaxBytes(1_048_588),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.RequiredAcks(map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}[j.Acks]),
	}
	if !j.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(j.Records))
	for i, r := range j.Records {
		headers := make([]kgo.RecordHeader, len(r.Headers))
		for n, header := range r.Headers {
			headers[n] = kgo.RecordHeader{Key: header.name, Value: header.value}
		}
		records[i] = &kgo.Record{
			Topic: j.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Headers: headers, Timestamp: time.UnixMilli(r.Timestamp),
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for i, r := range records {
		offsets[i] = r.Offset
	}
	return offsets, nil
}

func (d *driver) consume(ctx context.Context, j job) ([]record, error) {
	starts := map[int32]kgo.Offset{}
	missing := map[int32]bool{}
	for partition, end := range j.Ends {
		starts[partition] = kgo.NewOffset().AtStart()
		if end > 0 {
			missing[partition] = true
		}
	}
	level := kgo.ReadUncommitted()
	if j.Isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(d.seeds...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: starts}),
		kgo.FetchIsolationLevel(level),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []record{}
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d records came, but not the end of %v: %w", len(found), missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := make([]pair, len(r.Headers))
			for n, header := range r.Headers {
				headers[n] = pair{header.Key, header.Value}
			}
			found = append(found, record{r.Partition, r.Offset, r.Key, r.Value, headers, r.Timestamp.UnixMilli()})
			if r.Offset+1 >= j.Ends[r.Partition] {
				delete(missing, r.Partition)
			}
		})
	}
	return found, nil
}

func (d *driver) describeTopic(ctx context.Context, topic string) ([]partitionSeen, error) {
	topics, err := d.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := topics[topic].Err; err != nil {
		return nil, err
	}
	seen := []partitionSeen{}
	for _, p := range topics[topic].Partitions.Sorted() {
		seen = append(seen, partitionSeen{p.Partition, p.Leader, p.Replicas, p.ISR})
	}
	return seen, nil
}

func (d *driver) describeTopicPartitions(ctx context.Context, topic string) ([]partitionSeen, error) {
	request := kmsg.NewPtrDescribeTopicPartitionsRequest()
	asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
	asked.Topic = topic
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, d.client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return nil, err
	}
	seen := []partitionSeen{}
	for _, p := range answer.Topics[0].Partitions {
		seen = append(seen, partitionSeen{p.Partition, p.LeaderID, p.Replicas, p.ISR})
	}
	return seen, nil
}

func (d *driver) describeConfig(ctx context.Context, topic string) (map[string]*string, error) {
	answers, err := d.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	found := map[string]*string{}
	for _, config := range answers[0].Configs {
		found[config.Key] = config.Value
	}
	return found, answers[0].Err
}

func (d *driver) listOffset(ctx context.Context, j job) (int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch spec := j.Spec.(type) {
	case float64:
		listed, err = d.admin.ListOffsetsAfterMilli(ctx, int64(spec), j.Topic)
	case string:
		switch spec {
		case "earliest":
			listed, err = d.admin.ListStartOffsets(ctx, j.Topic)
		case "latest":
			listed, err = d.admin.ListEndOffsets(ctx, j.Topic)
		default:
			listed, err = d.admin.ListMaxTimestampOffsets(ctx, j.Topic)
		}
	}
	if err != nil {
		return 0, err
	}
	offset, _ := listed.Lookup(j.Topic, j.Partition)
	return offset.Offset, offset.Err
}

func (d *driver) describeCluster(ctx context.Context) (any, error) {
	seen, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []map[string]any{}
	for _, node := range seen.Brokers {
		nodes = append(nodes, map[string]any{"id": node.NodeID, "host": node.Host, "port": node.Port})
	}
	return map[string]any{"cluster_id": seen.Cluster, "nodes": nodes}, nil
}

func (d *driver) describeLogDirs(ctx context.Context, topic string) (map[int32]int64, error) {
	described, err := d.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	sizes := map[int32]int64{}
	for _, directories := range described {
		if err := directories.Error(); err != nil {
			return nil, err
		}
		directories.EachPartition(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic {
				sizes[p.Partition] = p.Size
			}
		})
	}
	return sizes, nil
}
