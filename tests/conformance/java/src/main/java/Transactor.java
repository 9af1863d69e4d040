import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A transactional producer, and the consumer of its source where it has one. */
final class Transactor {
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, Long> from = new HashMap<>();

    Transactor(String bootstrap, JsonNode terms) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        settings.put("transactional.id", terms.get("transactional_id").asText());
        settings.put("transaction.timeout.ms", terms.get("timeout_ms").asInt());
        settings.put("max.block.ms", 20_000);
        producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        String group = terms.get("group").asText();
        consumer = group.isEmpty() ? null : new KafkaConsumer<>(consumerSettings(bootstrap, group));
        if (consumer != null) {
            consumer.subscribe(List.of(terms.get("source").asText()));
        }
    }

    private static Properties consumerSettings(String bootstrap, String group) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        return settings;
    }

    Object poll(int count) {
        var found = new ArrayList<Object>();
        for (int turn = 0; turn < 200 && found.size() < count; turn++) {
            for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofMillis(100))) {
                from.putIfAbsent(new TopicPartition(got.topic(), got.partition()), got.offset());
                found.add(List.of(got.topic(), got.partition(), got.offset(),
                    new String(got.value(), StandardCharsets.UTF_8)));
            }
        }
        if (found.size() < count) {
            throw new IllegalStateException(found.size() + " of " + count + " records came");
        }
        return found;
    }

    Object begin() {
        producer.beginTransaction();
        return null;
    }

    Object send(String topic, JsonNode values) throws Exception {
        var futures = new ArrayList<Future<RecordMetadata>>();
        for (JsonNode each : values) {
            byte[] value = each.get(1).asText().getBytes(StandardCharsets.UTF_8);
            futures.add(producer.send(new ProducerRecord<>(topic, each.get(0).asInt(), null, value)));
        }
        producer.flush();
        for (Future<RecordMetadata> future : futures) {
            future.get();
        }
        return null;
    }

    Object end(boolean commit) {
        if (commit) {
            if (consumer != null) {
                var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
                consumer.assignment().forEach(where ->
                    offsets.put(where, new OffsetAndMetadata(consumer.position(where))));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            }
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
            from.forEach((where, offset) -> consumer.seek(where, offset));
        }
        from.clear();
        return null;
    }

    Object close() {
        if (consumer != null) {
            consumer.close(Duration.ofSeconds(10));
        }
        producer.close(Duration.ofSeconds(5));
        return null;
    }
}
