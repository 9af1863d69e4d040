import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The jobs about groups and transactions: sessions by their id, and what the admin client says of them. */
final class Coordination {
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, Transactor> transactors = new HashMap<>();
    private final Map<String, Stream> streams = new HashMap<>();

    Object run(String bootstrap, Admin admin, JsonNode job) throws Exception {
        String id = job.path("id").asText();
        String group = job.path("group").asText();
        String transactional = job.path("transactional_id").asText();
        return switch (job.get("op").asText()) {
            case "member_open" -> members.put(id, new Member(bootstrap, job)) == null ? null : id;
            case "member_seen" -> members.get(id).seen();
            case "member_commit" -> members.get(id).commit(job);
            case "member_committed" -> members.get(id).committed(job);
            case "member_close" -> members.remove(id).close();
            case "txn_open" -> transactors.put(id, new Transactor(bootstrap, job)) == null ? null : id;
            case "txn_poll" -> transactors.get(id).poll(job.get("count").asInt());
            case "txn_begin" -> transactors.get(id).begin();
            case "txn_send" -> transactors.get(id).send(job.get("topic").asText(), job.get("values"));
            case "txn_end" -> transactors.get(id).end(job.get("commit").asBoolean());
            case "txn_close" -> transactors.remove(id).close();
            case "stream_open" -> streams.put(id, new Stream(bootstrap, job)) == null ? null : id;
            case "stream_seen" -> streams.get(id).seen();
            case "stream_close" -> streams.get(id).close();
            case "group_offsets" -> offsets(admin, group);
            case "list_groups" -> admin.listGroups().all().get().stream()
                .map(each -> List.of(each.groupId(), each.type().map(Object::toString).orElse("").toLowerCase(),
                    each.groupState().map(Object::toString).orElse(""))).toList();
            case "describe_group" -> describe(admin, group);
            case "delete_group" -> admin.deleteConsumerGroups(List.of(group)).all().get();
            case "alter_offsets" -> admin.alterConsumerGroupOffsets(group, wanted(job)).all().get();
            case "delete_offsets" -> admin.deleteConsumerGroupOffsets(group, Set.of(where(job))).all().get();
            case "list_transactions" -> admin.listTransactions().all().get().stream()
                .map(each -> List.of(each.transactionalId(), each.state().toString())).toList();
            case "describe_transaction" -> describeTransaction(admin, transactional);
            case "describe_producers" -> admin.describeProducers(List.of(where(job))).all().get().get(where(job))
                .activeProducers().stream().map(each -> Map.of("last_sequence", each.lastSequence())).toList();
            case "fence_producers" -> admin.fenceProducers(List.of(transactional)).all().get();
            default -> throw new IllegalArgumentException(job.get("op").asText());
        };
    }

    private static Object offsets(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet().stream()
            .filter(each -> each.getValue() != null)
            .map(each -> List.of(each.getKey().topic(), each.getKey().partition(),
                each.getValue().offset(), each.getValue().metadata())).toList();
    }

    private static Object describe(Admin admin, String group) throws Exception {
        var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return Map.of(
            "state", found.groupState().toString(),
            "type", found.type().toString().toLowerCase(),
            "members", found.members().stream().map(member -> {
                var seen = new HashMap<String, Object>();
                seen.put("instance", member.groupInstanceId().orElse(null));
                seen.put("partitions", member.assignment().topicPartitions().stream()
                    .map(each -> List.of(each.topic(), each.partition())).toList());
                return seen;
            }).toList());
    }

    private static Object describeTransaction(Admin admin, String transactional) throws Exception {
        var found = admin.describeTransactions(List.of(transactional)).all().get().get(transactional);
        return Map.of(
            "state", found.state().toString(),
            "timeout_ms", found.transactionTimeoutMs(),
            "partitions", found.topicPartitions().stream()
                .map(each -> List.of(each.topic(), each.partition())).toList());
    }

    private static Map<TopicPartition, OffsetAndMetadata> wanted(JsonNode job) {
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        job.get("offsets").forEach(each -> offsets.put(
            new TopicPartition(each.get(0).asText(), each.get(1).asInt()),
            new OffsetAndMetadata(each.get(2).asLong())));
        return offsets;
    }

    private static TopicPartition where(JsonNode job) {
        return new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
    }
}
