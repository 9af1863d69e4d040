// Drives KafkaJS: one JSON job a line on stdin, one JSON answer a line on stdout.
'use strict'

const readline = require('node:readline')
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')
// Its consumer knows groups only. What reads partitions by offset is its own cluster, fetch and batch code below.
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const ISOLATION = require('kafkajs/src/protocol/isolationLevel')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const createLogLine = require('kafkajs/src/loggers/console')
const coordination = require('./coordination')

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }
const coded = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const decoded = (text) => (text === null ? null : Buffer.from(text, 'base64'))

let brokers
let kafka
let admin

const operations = {
  async connect({ bootstrap }) {
    brokers = bootstrap.split(',')
    kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING, retry: { retries: 5 } })
    admin = kafka.admin({ retry: { retries: 0 } })
    await admin.connect()
  },

  async produce({ topic, records, codec, acks, idempotent }) {
    const producer = kafka.producer({ idempotent, allowAutoTopicCreation: false })
    await producer.connect()
    try {
      // A send becomes one batch a partition, so the records of a partition get consecutive offsets.
      const messages = records.map((record) => ({
        partition: record.partition,
        key: decoded(record.key),
        value: decoded(record.value),
        headers: headersOf(record.headers),
        timestamp: String(record.timestamp),
      }))
      const offsets = []
      for (const run of runsOf(messages)) {
        const answers = await producer.send({ topic, messages: run, acks, compression: CODECS[codec] })
        const next = new Map((answers ?? []).map((answer) => [answer.partition, Number(answer.baseOffset)]))
        for (const message of run) {
          offsets.push(next.has(message.partition) ? next.get(message.partition) : null)
          next.set(message.partition, next.get(message.partition) + 1)
        }
      }
      return offsets
    } finally {
      await producer.disconnect()
    }
  },

  async consume({ topic, ends, isolation }) {
    const isolationLevel = isolation === 'read_committed' ? ISOLATION.READ_COMMITTED : ISOLATION.READ_UNCOMMITTED
    const cluster = clusterFor(isolationLevel)
    await cluster.connect()
    try {
      await cluster.addTargetTopic(topic)
      const records = []
      for (const [number, end] of Object.entries(ends)) {
        records.push(...(await readPartition(cluster, topic, Number(number), end, isolationLevel)))
      }
      return records
    } finally {
      await cluster.disconnect()
    }
  },

  async create_topic({ topic, partitions, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({
      validateOnly: false,
      waitForLeaders: true,
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
    })
    // It keeps that one error to itself and says only that nothing was created.
    if (!created) throw Object.assign(new Error('the topic exists'), { code: 36 })
  },

  async delete_topic({ topic }) {
    await admin.deleteTopics({ topics: [topic] })
  },

  async describe_topic({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.map(({ partitionId, leader, replicas, isr }) => ({
      partition: partitionId,
      leader,
      replicas,
      isr,
    }))
  },

  async add_partitions({ topic, total }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: total }] })
  },

  async alter_config({ topic, key, value }) {
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: key, value }] }],
    })
  },

  async describe_config({ topic }) {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    })
    return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  },

  async delete_records({ topic, partition, before }) {
    // It looks for the leader in metadata that it may not have fetched yet; this does.
    await admin.fetchTopicOffsets(topic)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
    const offsets = await admin.fetchTopicOffsets(topic)
    return Number(offsets.find((each) => each.partition === partition).low)
  },

  async list_offset({ topic, partition, spec }) {
    if (typeof spec === 'number') {
      // It answers a time after the last record with the end of the log, where others say -1.
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, spec)
      return Number(found.find((each) => each.partition === partition).offset)
    }
    const offsets = await admin.fetchTopicOffsets(topic)
    const { low, high } = offsets.find((each) => each.partition === partition)
    return Number(spec === 'earliest' ? low : high)
  },

  async describe_cluster() {
    const { clusterId, brokers } = await admin.describeCluster()
    return {
      cluster_id: clusterId,
      nodes: brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port })),
    }
  },
}

Object.assign(operations, coordination(() => ({ kafka, admin })))

function clusterFor(isolationLevel) {
  return new Cluster({
    logger: createLogger({ level: logLevel.NOTHING, logCreator: createLogLine }),
    socketFactory: socketFactory(),
    brokers,
    clientId: 'conformance',
    connectionTimeout: 1000,
    requestTimeout: 30000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
    isolationLevel,
  })
}

async function readPartition(cluster, topic, partition, end, isolationLevel) {
  const [leader] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
  const broker = await cluster.findBroker({ nodeId: leader })
  const offsets = [{ topic, partitions: [{ partition }], fromBeginning: true }]
  const start = await cluster.fetchTopicsOffset(offsets)
  let offset = Number(start[0].partitions[0].offset)
  const records = []
  const deadline = Date.now() + 30_000
  while (offset < end) {
    if (Date.now() > deadline) throw new Error(`${records.length} records came, not the end of ${partition}`)
    const { responses } = await broker.fetch({
      isolationLevel,
      maxWaitTime: 500,
      minBytes: 1,
      maxBytes: 10485760,
      topics: [{ topic, partitions: [{ partition, fetchOffset: String(offset), maxBytes: 1048576 }] }],
    })
    const batch = new Batch(topic, String(offset), responses[0].partitions[0])
    for (const message of batch.messages) {
      records.push({
        partition,
        offset: Number(message.offset),
        key: coded(message.key),
        value: coded(message.value),
        headers: pairsOf(message.headers),
        timestamp: Number(message.timestamp),
      })
    }
    if (!batch.isEmptyIncludingFiltered()) offset = Number(batch.lastOffset()) + 1
  }
  return records
}

// KafkaJS keeps headers in an object, so a name that comes twice becomes a list of values.
function headersOf(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    const bytes = decoded(value)
    headers[name] = name in headers ? [].concat(headers[name], [bytes]) : bytes
  }
  return headers
}

function pairsOf(headers) {
  return Object.entries(headers ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, coded(each)]),
  )
}

// It sends what it is given as one batch a partition, whatever the size, so large records go one by one.
function runsOf(messages) {
  const small = messages.every(({ value }) => (value?.length ?? 0) < 10_000)
  return small ? [messages] : messages.map((message) => [message])
}

function answer(line) {
  process.stdout.write(JSON.stringify(line) + '\n')
}

function codeOf(error) {
  if (typeof error.code === 'number') return error.code
  if (error.groups?.length) return error.groups[0].errorCode
  const inner = error.errors?.[0] ?? error.partitions?.[0]?.error ?? error.cause
  return inner ? codeOf(inner) : -1
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, ...job } = JSON.parse(line)
    try {
      answer({ ok: (await operations[op](job)) ?? null })
    } catch (error) {
      answer({ error: codeOf(error), message: `${op}: ${error.stack}` })
    }
  }
  await admin?.disconnect()
}

main()
