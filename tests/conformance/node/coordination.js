// The jobs about groups and transactions.
'use strict'

const { AssignerProtocol } = require('kafkajs')

const POLL_LIMIT_MS = 20_000

// One consumer in a group. It polls by itself and commits after each batch.
class Member {
  constructor(kafka, terms) {
    this.terms = terms
    this.assignment = []
    this.events = []
    this.records = []
    this.ends = new Map()
    this.error = null
    this.consumer = kafka.consumer({
      groupId: terms.group,
      sessionTimeout: terms.session_ms,
      heartbeatInterval: terms.heartbeat_ms,
      rebalanceTimeout: 10_000,
      maxWaitTimeInMs: 100,
      metadataMaxAge: 1000,
      readUncommitted: terms.isolation === 'read_uncommitted',
      retry: { retries: 10, initialRetryTime: 50, maxRetryTime: 500 },
    })
    this.consumer.on('consumer.group_join', ({ payload }) => {
      this.events.push('assigned')
      this.assignment = pairsOf(payload.memberAssignment)
    })
    this.consumer.on('consumer.rebalancing', () => {
      this.events.push('revoked')
      this.assignment = []
    })
    this.consumer.on('consumer.crash', ({ payload }) => {
      if (!payload.restart) this.error = [payload.error.code ?? -1, String(payload.error)]
    })
  }

  async open() {
    const { topics, pattern, reset, commit } = this.terms
    await this.consumer.connect()
    const wanted = pattern === null ? topics : [new RegExp(`^${pattern}`)]
    await this.consumer.subscribe({ topics: wanted, fromBeginning: reset === 'earliest' })
    await this.consumer.run({
      autoCommit: commit !== 'none',
      autoCommitInterval: commit === 'auto' ? 100 : null,
      eachBatch: async ({ batch }) => {
        for (const message of batch.messages) {
          this.records.push([batch.topic, batch.partition, Number(message.offset), message.value.toString()])
        }
        const end = Number(batch.lastOffset()) + 1
        this.ends.set(`${batch.topic} ${batch.partition}`, [batch.topic, batch.partition, end])
      },
    })
  }

  seen() {
    const seen = { assignment: this.assignment, events: this.events, records: this.records, error: this.error }
    this.events = []
    this.records = []
    return seen
  }

  async commit(offsets) {
    // It tells no positions, so they are what was handed to us.
    const wanted = offsets ?? [...this.ends.values()]
    await this.consumer.commitOffsets(
      wanted.map(([topic, partition, offset, metadata]) => ({ topic, partition, offset: String(offset), metadata })),
    )
  }
}

// A transactional producer, and the consumer of its source where it has one.
class Transactor {
  constructor(kafka, terms) {
    this.terms = terms
    this.buffer = []
    this.taken = []
    this.producer = kafka.producer({
      transactionalId: terms.transactional_id,
      transactionTimeout: terms.timeout_ms,
      maxInFlightRequests: 1,
      idempotent: true,
    })
    if (terms.group) this.consumer = kafka.consumer({ groupId: terms.group, maxWaitTimeInMs: 100 })
  }

  async open() {
    await this.producer.connect()
    // It takes over the id with the first transaction, so the first is begun here.
    this.first = await this.producer.transaction()
    if (!this.consumer) return
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [this.terms.source], fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        for (const message of batch.messages) {
          this.buffer.push([batch.topic, batch.partition, Number(message.offset), message.value.toString()])
        }
      },
    })
  }

  async poll(count) {
    const deadline = Date.now() + POLL_LIMIT_MS
    while (this.buffer.length < count) {
      if (Date.now() > deadline) throw new Error(`${this.buffer.length} of ${count} records came`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const found = this.buffer
    this.buffer = []
    this.taken.push(...found)
    return found
  }

  async begin() {
    this.transaction = this.first ?? (await this.producer.transaction())
    this.first = null
  }

  async send(topic, values) {
    const messages = values.map(([partition, value]) => ({ partition, value }))
    await this.transaction.send({ topic, messages })
  }

  async end(commit) {
    if (!commit) {
      await this.transaction.abort()
      // What was taken is taken again, as a consumer that goes back would.
      this.buffer.unshift(...this.taken)
    } else {
      if (this.taken.length) await this.transaction.sendOffsets({ consumerGroupId: this.terms.group, topics: this.offsets() })
      await this.transaction.commit()
    }
    this.taken = []
  }

  offsets() {
    const topics = new Map()
    for (const [topic, partition, offset] of this.taken) {
      if (!topics.has(topic)) topics.set(topic, new Map())
      topics.get(topic).set(partition, { partition, offset: String(offset + 1) })
    }
    return [...topics].map(([topic, partitions]) => ({ topic, partitions: [...partitions.values()] }))
  }

  async close() {
    await this.consumer?.disconnect()
    await this.producer.disconnect()
  }
}

function pairsOf(assignment) {
  return Object.entries(assignment ?? {}).flatMap(([topic, partitions]) => partitions.map((each) => [topic, each]))
}

// `clients()` gives the connected { kafka, admin }.
module.exports = function coordination(clients) {
  const members = new Map()
  const transactors = new Map()
  return {
    async member_open({ id, ...terms }) {
      const member = new Member(clients().kafka, terms)
      members.set(id, member)
      await member.open()
    },
    async member_seen({ id }) {
      return members.get(id).seen()
    },
    async member_commit({ id, offsets }) {
      await members.get(id).commit(offsets)
    },
    async member_committed({ id, topic }) {
      const { group } = members.get(id).terms
      const found = await clients().admin.fetchOffsets({ groupId: group, topics: [topic] })
      return found.flatMap((each) => each.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
    },
    async member_close({ id }) {
      await members.get(id).consumer.disconnect()
    },

    async txn_open({ id, ...terms }) {
      const transactor = new Transactor(clients().kafka, terms)
      transactors.set(id, transactor)
      await transactor.open()
    },
    async txn_poll({ id, count }) {
      return transactors.get(id).poll(count)
    },
    async txn_begin({ id }) {
      await transactors.get(id).begin()
    },
    async txn_send({ id, topic, values }) {
      await transactors.get(id).send(topic, values)
    },
    async txn_end({ id, commit }) {
      await transactors.get(id).end(commit)
    },
    async txn_close({ id }) {
      await transactors.get(id).close()
    },

    async group_offsets({ group }) {
      const found = await clients().admin.fetchOffsets({ groupId: group })
      return found.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset, metadata }) => [topic, partition, Number(offset), metadata ?? '']),
      )
    },
    async list_groups() {
      // It tells neither type nor state.
      const { groups } = await clients().admin.listGroups()
      return groups.map(({ groupId }) => [groupId, '', ''])
    },
    async describe_group({ group }) {
      const { groups } = await clients().admin.describeGroups([group])
      const members = groups[0].members.map(({ memberAssignment }) => ({
        instance: null,
        partitions: pairsOf(AssignerProtocol.MemberAssignment.decode(memberAssignment)?.assignment),
      }))
      return { state: groups[0].state, members }
    },
    async delete_group({ group }) {
      await clients().admin.deleteGroups([group])
    },
    async alter_offsets({ group, offsets }) {
      // Each call takes this client seconds, so that all partitions of a topic go in one.
      for (const topic of new Set(offsets.map((each) => each[0]))) {
        const ours = offsets.filter((each) => each[0] === topic)
        const partitions = ours.map(([, partition, offset]) => ({ partition, offset: String(offset) }))
        await clients().admin.setOffsets({ groupId: group, topic, partitions })
      }
    },
  }
}
