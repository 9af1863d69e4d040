package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A producer with the library's own patience, which writes by itself at a steady rate.
type stream struct {
	client  *kgo.Client
	stop    context.CancelFunc
	stopped chan struct{}

	mu     sync.Mutex // Guards what became of records and was not yet asked for.
	sent   int
	acked  [][]any
	failed [][]any
}

func openStream(seeds []string, j job) (*stream, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{client: client, stop: stop, stopped: make(chan struct{})}
	go s.run(ctx, j)
	return s, nil
}

func (s *stream) run(ctx context.Context, j job) {
	defer close(s.stopped)
	tick := time.NewTicker(time.Duration(float64(time.Second) / j.Rate))
	defer tick.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		partition, value := int32(number)%j.Partitions, strconv.Itoa(number)
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		sent := time.Now().UnixMicro()
		record := &kgo.Record{Topic: j.Topic, Partition: partition, Value: []byte(value)}
		s.client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil {
				s.acked = append(s.acked, []any{partition, value, r.Offset, sent, time.Now().UnixMicro()})
			} else {
				s.failed = append(s.failed, []any{partition, value, sent, err.Error()})
			}
		})
	}
}

func (s *stream) seen() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := map[string]any{"sent": s.sent, "acked": listed(s.acked), "failed": listed(s.failed), "errors": []string{}}
	s.acked, s.failed = nil, nil
	return answer
}

// JSON has null for a slice that is nil.
func listed(rows [][]any) [][]any {
	if rows == nil {
		return [][]any{}
	}
	return rows
}

func (s *stream) close() error {
	s.stop()
	<-s.stopped
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	err := s.client.Flush(ctx)
	s.client.Close()
	return err
}
