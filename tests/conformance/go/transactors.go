package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A transactional producer; with a group, the library's session of consumer and producer in one.
type transactor struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
}

func openTransactor(ctx context.Context, seeds []string, j job) (*transactor, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.TransactionalID(j.TransactionalID),
		kgo.TransactionTimeout(time.Duration(j.TimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(20 * time.Second),
	}
	if j.Group == "" {
		client, err := kgo.NewClient(options...)
		if err != nil {
			return nil, err
		}
		// The producer id is otherwise asked for with the first record.
		_, _, err = client.ProducerID(ctx)
		return &transactor{client: client}, err
	}
	session, err := kgo.NewGroupTransactSession(append(options,
		kgo.ConsumerGroup(j.Group),
		kgo.ConsumeTopics(j.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)...)
	if err != nil {
		return nil, err
	}
	_, _, err = session.Client().ProducerID(ctx)
	return &transactor{client: session.Client(), session: session}, err
}

func (t *transactor) poll(ctx context.Context, count int) ([]any, error) {
	found := []any{}
	for len(found) < count {
		fetches := t.session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records came: %w", len(found), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			found = append(found, []any{r.Topic, r.Partition, r.Offset, string(r.Value)})
		})
	}
	return found, nil
}

func (t *transactor) begin() error {
	if t.session != nil {
		return t.session.Begin()
	}
	return t.client.BeginTransaction()
}

func (t *transactor) send(ctx context.Context, j job) error {
	records := make([]*kgo.Record, len(j.Values))
	for i, each := range j.Values {
		records[i] = &kgo.Record{Topic: j.Topic, Partition: each.partition, Value: []byte(each.value)}
	}
	return t.client.ProduceSync(ctx, records...).FirstErr()
}

func (t *transactor) end(ctx context.Context, commit bool) error {
	if t.session == nil {
		return t.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	}
	committed, err := t.session.End(ctx, kgo.TransactionEndTry(commit))
	if err == nil && committed != commit {
		err = errors.New("the session aborted what was to be committed")
	}
	return err
}

func (t *transactor) close() {
	if t.session != nil {
		t.session.Close()
	} else {
		t.client.Close()
	}
}
