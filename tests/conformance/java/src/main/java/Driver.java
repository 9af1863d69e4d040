import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Drives kafka-clients: one JSON job a line on stdin, one JSON answer a line on stdout. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private String bootstrap;
    private Admin admin;
    private final Coordination coordination = new Coordination();

    public static void main(String[] arguments) throws IOException {
        var driver = new Driver();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(driver.answer(JSON.readTree(line)));
        }
        if (driver.admin != null) {
            driver.admin.close(Duration.ofSeconds(5));
        }
    }

    private String answer(JsonNode job) throws IOException {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("ok", JSON.valueToTree(run(job)));
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            answer.put("error", (int) Errors.forException(cause).code());
            answer.put("message", job.get("op").asText() + ": " + cause);
            failure.printStackTrace();
        }
        return JSON.writeValueAsString(answer);
    }

    private Object run(JsonNode job) throws Exception {
        String topic = job.path("topic").asText();
        return switch (job.get("op").asText()) {
            case "connect" -> connect(job);
            case "produce" -> produce(topic, job);
            case "consume" -> consume(topic, job);
            case "create_topic" -> admin.createTopics(List.of(newTopic(topic, job))).all().get();
            case "delete_topic" -> admin.deleteTopics(List.of(topic)).all().get();
            // This client describes topics by DescribeTopicPartitions wherever the broker has it.
            case "describe_topic", "describe_topic_partitions" -> describe(topic);
            case "add_partitions" ->
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(job.get("total").asInt()))).all().get();
            case "alter_config" -> alterConfig(topic, job);
            case "describe_config" -> describeConfig(topic);
            case "delete_records" -> deleteRecords(topic, job);
            case "list_offset" -> listOffset(topic, job);
            case "describe_cluster" -> describeCluster();
            case "describe_log_dirs" -> describeLogDirs(topic);
            default -> coordination.run(bootstrap, admin, job);
        };
    }

    private Object connect(JsonNode job) {
        bootstrap = job.get("bootstrap").asText();
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        return null;
    }

    private List<Long> produce(String topic, JsonNode job) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        settings.put("compression.type", job.get("codec").asText());
        settings.put("acks", job.get("acks").asText());
        settings.put("enable.idempotence", job.get("idempotent").asBoolean());
        settings.put("max.request.size", 1_048_588);
        var futures = new ArrayList<Future<RecordMetadata>>();
        var offsets = new ArrayList<Long>();
        try (var producer = new KafkaProducer<byte[], byte[]>(settings)) {
            for (JsonNode record : job.get("records")) {
                var headers = new ArrayList<Header>();
                for (JsonNode pair : record.get("headers")) {
                    headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
                }
                futures.add(producer.send(new ProducerRecord<>(
                    topic, record.get("partition").asInt(), record.get("timestamp").asLong(),
                    bytes(record.get("key")), bytes(record.get("value")), headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : futures) {
                offsets.add(future.get().offset());
            }
        }
        return offsets;
    }

    private ArrayNode consume(String topic, JsonNode job) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("enable.auto.commit", false);
        settings.put("isolation.level", job.get("isolation").asText());
        settings.put("auto.offset.reset", "none");
        var ends = new HashMap<Integer, Long>();
        job.get("ends").properties().forEach(end -> ends.put(Integer.valueOf(end.getKey()), end.getValue().asLong()));
        ArrayNode found = JSON.createArrayNode();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings)) {
            var partitions = ends.keySet().stream().map(number -> new TopicPartition(topic, number)).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Set<Integer> missing = new HashSet<>(ends.keySet());
            missing.removeIf(number -> ends.get(number) == 0);
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (!missing.isEmpty() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    found.add(readBack(record));
                    if (record.offset() + 1 >= ends.get(record.partition())) {
                        missing.remove(record.partition());
                    }
                }
            }
            if (!missing.isEmpty()) {
                throw new IllegalStateException(found.size() + " records came, but not the end of " + missing);
            }
        }
        return found;
    }

    private static ObjectNode readBack(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("partition", record.partition());
        node.put("offset", record.offset());
        node.put("key", record.key());
        node.put("value", record.value());
        node.put("timestamp", record.timestamp());
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return node;
    }

    private static NewTopic newTopic(String topic, JsonNode job) {
        var configs = new HashMap<String, String>();
        job.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return new NewTopic(topic, job.get("partitions").asInt(), (short) 1).configs(configs);
    }

    private Object describe(String topic) throws Exception {
        TopicDescription seen = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        return seen.partitions().stream().map(partition -> Map.of(
            "partition", partition.partition(),
            "leader", partition.leader() == null ? -1 : partition.leader().id(),
            "replicas", partition.replicas().stream().map(Node::id).toList(),
            "isr", partition.isr().stream().map(Node::id).toList())).toList();
    }

    private Object alterConfig(String topic, JsonNode job) throws Exception {
        var entry = new ConfigEntry(job.get("key").asText(), job.get("value").asText());
        var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        return admin.incrementalAlterConfigs(Map.of(resource(topic), change)).all().get();
    }

    private Map<String, String> describeConfig(String topic) throws Exception {
        var found = new HashMap<String, String>();
        admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic)).entries()
            .forEach(entry -> found.put(entry.name(), entry.value()));
        return found;
    }

    private long deleteRecords(String topic, JsonNode job) throws Exception {
        var where = new TopicPartition(topic, job.get("partition").asInt());
        var before = RecordsToDelete.beforeOffset(job.get("before").asLong());
        return admin.deleteRecords(Map.of(where, before)).lowWatermarks().get(where).get().lowWatermark();
    }

    private long listOffset(String topic, JsonNode job) throws Exception {
        var where = new TopicPartition(topic, job.get("partition").asInt());
        JsonNode wanted = job.get("spec");
        OffsetSpec spec = wanted.isNumber() ? OffsetSpec.forTimestamp(wanted.asLong()) : switch (wanted.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            default -> OffsetSpec.maxTimestamp();
        };
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get().offset();
    }

    private Object describeCluster() throws Exception {
        var seen = admin.describeCluster();
        var nodes = seen.nodes().get().stream()
            .map(node -> Map.of("id", node.id(), "host", node.host(), "port", node.port())).toList();
        return Map.of("cluster_id", seen.clusterId().get(), "nodes", nodes);
    }

    private Map<Integer, Long> describeLogDirs(String topic) throws Exception {
        var sizes = new HashMap<Integer, Long>();
        var brokers = admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        for (var directories : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (var directory : directories.values()) {
                directory.replicaInfos().forEach((where, replica) -> {
                    if (where.topic().equals(topic)) {
                        sizes.put(where.partition(), replica.size());
                    }
                });
            }
        }
        return sizes;
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }
}
