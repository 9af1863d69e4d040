import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One consumer in a group. Its own thread polls it, and does other calls on it between two polls. */
final class Member implements ConsumerRebalanceListener {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean commitEach;
    private final ConcurrentLinkedQueue<Runnable> calls = new ConcurrentLinkedQueue<>();
    private final Thread thread;
    private volatile boolean ended;
    private boolean fenced;

    // What was seen and not yet asked for; guarded by `this`.
    private final Set<TopicPartition> assignment = new HashSet<>();
    private List<String> events = new ArrayList<>();
    private List<Object> records = new ArrayList<>();
    private List<Object> error;

    Member(String bootstrap, JsonNode terms) {
        commitEach = terms.get("commit").asText().equals("each");
        consumer = new KafkaConsumer<>(settings(bootstrap, terms));
        boolean newer = terms.get("protocol").asText().equals("consumer");
        if (!terms.get("pattern").isNull()) {
            String pattern = terms.get("pattern").asText();
            if (newer) {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern), this);
            }
        } else {
            var topics = new ArrayList<String>();
            terms.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        }
        thread = new Thread(this::run, "member");
        thread.setDaemon(true);
        thread.start();
    }

    private static Properties settings(String bootstrap, JsonNode terms) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("group.id", terms.get("group").asText());
        settings.put("enable.auto.commit", terms.get("commit").asText().equals("auto"));
        settings.put("auto.commit.interval.ms", 100);
        settings.put("auto.offset.reset", terms.get("reset").asText());
        settings.put("isolation.level", terms.get("isolation").asText());
        settings.put("metadata.max.age.ms", 1000);
        settings.put("fetch.max.wait.ms", 100);
        if (!terms.get("instance").isNull()) {
            settings.put("group.instance.id", terms.get("instance").asText());
        }
        String protocol = terms.get("protocol").asText();
        if (protocol.equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", terms.get("session_ms").asInt());
            settings.put("heartbeat.interval.ms", terms.get("heartbeat_ms").asInt());
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer."
                + (protocol.equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor"));
        }
        return settings;
    }

    private void run() {
        while (!ended) {
            try {
                boolean some = false;
                for (ConsumerRecord<byte[], byte[]> got : poll()) {
                    String value = new String(got.value(), StandardCharsets.UTF_8);
                    synchronized (this) {
                        records.add(List.of(got.topic(), got.partition(), got.offset(), value));
                    }
                    some = true;
                }
                if (some && commitEach) {
                    commitQuietly();
                }
            } catch (KafkaException failure) {
                fenced |= failure instanceof FencedInstanceIdException;
                synchronized (this) {
                    error = List.of((int) Errors.forException(failure).code(), failure.toString());
                }
            }
            for (Runnable call = calls.poll(); call != null; call = calls.poll()) {
                call.run();
            }
        }
        consumer.close(Duration.ofSeconds(10));
    }

    /** A fenced member polls no more: the library has dropped its id, and would take its instance's place back. */
    private Iterable<ConsumerRecord<byte[], byte[]>> poll() {
        if (fenced) {
            LockSupport.parkNanos(100_000_000);
            return List.of();
        }
        return consumer.poll(Duration.ofMillis(100));
    }

    private void commitQuietly() {
        try {
            consumer.commitSync();
        } catch (KafkaException late) {
            // A rebalance got ahead of us; the next commit covers it.
        }
    }

    private <T> T call(Callable<T> work) throws Exception {
        var done = new CompletableFuture<T>();
        calls.add(() -> {
            try {
                done.complete(work.call());
            } catch (Exception failure) {
                done.completeExceptionally(failure);
            }
        });
        return done.get(20, TimeUnit.SECONDS);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        synchronized (this) {
            events.add("assigned");
            assignment.addAll(partitions);
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (commitEach) {
            commitQuietly();
        }
        synchronized (this) {
            events.add("revoked");
            assignment.removeAll(partitions);
        }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        synchronized (this) {
            events.add("lost");
            assignment.removeAll(partitions);
        }
    }

    synchronized Object seen() {
        var seen = new HashMap<String, Object>();
        seen.put("assignment", assignment.stream().map(each -> List.of(each.topic(), each.partition())).toList());
        seen.put("events", events);
        seen.put("records", records);
        seen.put("error", error);
        events = new ArrayList<>();
        records = new ArrayList<>();
        return seen;
    }

    Object commit(JsonNode job) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = job.get("offsets").isNull() ? null : new HashMap<>();
        for (JsonNode each : job.get("offsets")) {
            offsets.put(new TopicPartition(each.get(0).asText(), each.get(1).asInt()),
                new OffsetAndMetadata(each.get(2).asLong(), each.get(3).asText()));
        }
        if (!job.get("asynchronous").asBoolean()) {
            return call(() -> {
                if (offsets == null) {
                    consumer.commitSync();
                } else {
                    consumer.commitSync(offsets);
                }
                return null;
            });
        }
        var done = new CompletableFuture<Object>();
        call(() -> {
            var wanted = offsets == null ? consumer.assignment().stream().collect(
                HashMap<TopicPartition, OffsetAndMetadata>::new,
                (all, where) -> all.put(where, new OffsetAndMetadata(consumer.position(where))),
                HashMap::putAll) : offsets;
            consumer.commitAsync(wanted, (committed, failure) -> {
                if (failure == null) {
                    done.complete(null);
                } else {
                    done.completeExceptionally(failure);
                }
            });
            return null;
        });
        return done.get(20, TimeUnit.SECONDS);
    }

    Object committed(JsonNode job) throws Exception {
        var wanted = new HashSet<TopicPartition>();
        job.get("numbers").forEach(each ->
            wanted.add(new TopicPartition(job.get("topic").asText(), each.asInt())));
        Map<TopicPartition, OffsetAndMetadata> found = call(() -> consumer.committed(wanted));
        return found.entrySet().stream()
            .map(each -> List.of(each.getKey().partition(), each.getValue() == null ? -1 : each.getValue().offset()))
            .toList();
    }

    Object close() throws InterruptedException {
        ended = true;
        thread.join(15_000);
        return null;
    }
}
