import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer with the library's own patience, whose own thread writes at a steady rate. */
final class Stream {
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final int partitions;
    private final long intervalMs;
    private final Thread thread;
    private volatile boolean ended;

    // What became of records and was not yet asked for; guarded by `this`.
    private int sent;
    private List<Object> acked = new ArrayList<>();
    private List<Object> failed = new ArrayList<>();

    Stream(String bootstrap, JsonNode job) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        settings.put("enable.idempotence", true);
        producer = new KafkaProducer<>(settings);
        topic = job.get("topic").asText();
        partitions = job.get("partitions").asInt();
        intervalMs = Math.round(1000 / job.get("rate").asDouble());
        thread = new Thread(this::run, "stream");
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        for (int number = 0; !ended; number++) {
            int partition = number % partitions;
            String value = Integer.toString(number);
            synchronized (this) {
                sent++;
            }
            long began = now();
            byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(topic, partition, null, bytes), (found, error) -> {
                synchronized (this) {
                    if (error == null) {
                        acked.add(List.of(partition, value, found.offset(), began, now()));
                    } else {
                        failed.add(List.of(partition, value, began, error.toString()));
                    }
                }
            });
            try {
                Thread.sleep(intervalMs);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    synchronized Object seen() {
        var seen = Map.of("sent", sent, "acked", acked, "failed", failed, "errors", List.of());
        acked = new ArrayList<>();
        failed = new ArrayList<>();
        return seen;
    }

    Object close() throws InterruptedException {
        ended = true;
        thread.join();
        producer.close();
        return null;
    }
}
