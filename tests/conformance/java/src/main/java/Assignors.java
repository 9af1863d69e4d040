import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Kafka's own assignors: one group a line on stdin, one assignment a line on stdout, both JSON. */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Assignors() {
    }

    public static void main(String[] arguments) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(assigned(JSON.readTree(line))));
        }
    }

    private static Map<String, List<List<Object>>> assigned(JsonNode group) {
        var answer = new HashMap<String, List<List<Object>>>();
        assignor(group.get("assignor").asText())
            .assign(cluster(group.get("topics")), new GroupSubscription(subscriptions(group.get("members"))))
            .groupAssignment()
            .forEach((member, assignment) -> {
                var places = new ArrayList<List<Object>>();
                assignment.partitions().forEach(place -> places.add(List.of(place.topic(), place.partition())));
                answer.put(member, places);
            });
        return answer;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** A broker for each rack; a partition has a replica in each of its racks, or on one broker without any. */
    private static Cluster cluster(JsonNode topics) {
        var nodes = new HashMap<String, Node>();
        nodes.put("", new Node(0, "a", 1));
        var partitions = new ArrayList<PartitionInfo>();
        topics.properties().forEach(topic -> {
            int index = 0;
            for (JsonNode racks : topic.getValue()) {
                var replicas = new ArrayList<Node>();
                racks.forEach(rack -> replicas.add(
                    nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "a", 1, name))));
                if (replicas.isEmpty()) {
                    replicas.add(nodes.get(""));
                }
                var all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index++, all[0], all, all));
            }
        });
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Map<String, Subscription> subscriptions(JsonNode members) {
        var subscriptions = new HashMap<String, Subscription>();
        members.properties().forEach(entry -> {
            JsonNode member = entry.getValue();
            var topics = new ArrayList<String>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            var owned = new ArrayList<TopicPartition>();
            member.get("owned").forEach(
                place -> owned.add(new TopicPartition(place.get(0).asText(), place.get(1).asInt())));
            byte[] data = Base64.getDecoder().decode(member.get("user_data").asText());
            var subscription = new Subscription(
                topics,
                data.length == 0 ? null : ByteBuffer.wrap(data),
                owned,
                member.get("generation").asInt(),
                Optional.ofNullable(member.get("rack").textValue()));
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
            subscriptions.put(entry.getKey(), subscription);
        });
        return subscriptions;
    }
}
