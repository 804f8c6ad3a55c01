// Judges a recorded history of messages, in the manner of porcupine and Elle, for one simple model.
//
// A message that was acknowledged is delivered to each client exactly once, and after those that were sent before it in its line: by its
// publisher, or over one connection of it. Or the client was told: a join with `recovered: false` covers the messages up to its position, and when positions do not compare, those that
// were sent before the reply. A message without an acknowledgement may arrive or not, once, and at any time: its publisher did not wait
// for it. A position is one message, a message has one position, and between two such joins the positions of an epoch only grow. A log
// that goes on under another epoch is no violation while no message is lost.
//
// A history has times in milliseconds since its start:
//
//   published  { topic, publisher, n, at, acknowledged, position, line }   `acknowledged` is a time or null; the position may be absent,
//                                                                    and the line, which then is the publisher
//   followers  { client, topic, events }                             of one client and topic, in the order in which they arrived:
//                { at, kind: 'joined', recovered, position }
//                { at, kind: 'message', publisher, n, position }
//   presence   { at, client, topic, seen, truth }                    the metas of each key
//   counts     { at, where, left }                                   after all clients have left; all numbers must be zero
//   troubles   { at, text }                                          anything that must not happen
//   faults     { at, until, what }

import { isDeepStrictEqual } from 'node:util'

const idOf = ({ publisher, n }) => `${publisher} ${n}`
const lineOf = ({ publisher, line = publisher }) => line
const seconds = (ms) => `${(ms / 1_000).toFixed(3)} s`

/** The items of each key, as `Map.groupBy` of newer versions of Node. */
export function groupBy(items, keyOf) {
  const groups = new Map()
  for (const item of items) {
    const key = keyOf(item)
    if (groups.has(key)) groups.get(key).push(item)
    else groups.set(key, [item])
  }
  return groups
}

/** The epoch and the offset of a position. */
function parse(position) {
  const at = position.lastIndexOf(':')
  return { epoch: position.slice(0, at), offset: Number(position.slice(at + 1)) }
}

/** Whether a position comes after another; undefined when they are of different epochs. */
function isAfter(position, other) {
  const [one, two] = [parse(position), parse(other)]
  return one.epoch === two.epoch ? one.offset > two.offset : undefined
}

/** The violations of the model: the kind of each, the topic, the client, the id of the message and the time when there are some, and a text. */
export function check({ published = [], followers = [], presence = [], counts = [], troubles = [] }) {
  const violations = []
  const report = (violation) => {
    violations.push(violation)
    return violation
  }
  const byTopic = groupBy(published, ({ topic }) => topic)
  for (const topic of new Set([...byTopic.keys(), ...followers.map(({ topic }) => topic)])) {
    const ofTopic = followers.filter((follower) => follower.topic === topic)
    checkTopic(topic, byTopic.get(topic) ?? [], ofTopic, report)
  }
  for (const { at, client, topic, seen, truth } of presence) {
    if (isDeepStrictEqual(seen, truth)) continue
    report({ kind: 'presence', topic, client, at, text: `it sees ${JSON.stringify(seen)}, and the truth is ${JSON.stringify(truth)}` })
  }
  for (const { at, where, left } of counts) {
    if (Object.values(left).some((count) => count !== 0)) report({ kind: 'count', at, text: `${where} still has ${JSON.stringify(left)}` })
  }
  for (const { at, text } of troubles) report({ kind: 'trouble', at, text })
  return violations
}

function checkTopic(topic, published, followers, report) {
  const messages = new Map(published.map((message) => [idOf(message), message]))
  const acknowledged = groupBy(
    published.filter((message) => message.acknowledged !== null),
    lineOf,
  )
  const positions = positionsOf(published, followers, (violation) => report({ topic, ...violation }))
  for (const follower of followers) {
    const ofClient = (violation) => report({ topic, client: follower.client, ...violation })
    checkFollower(follower.events, { messages, acknowledged, positions }, ofClient)
  }
}

/** The position of each message, by its id. Reports a message with two positions, and a position with two messages. */
function positionsOf(published, followers, report) {
  const [positions, messages] = [new Map(), new Map()]
  const note = (message, client) => {
    const { position, at } = message
    if (!position) return
    const id = idOf(message)
    const [known, other] = [positions.get(id) ?? position, messages.get(position) ?? id]
    if (known !== position) report({ kind: 'position', client, message: id, at, text: `it has two positions: ${known} and ${position}` })
    if (other !== id) report({ kind: 'position', client, message: id, at, text: `${other} has the same position: ${position}` })
    positions.set(id, known)
    messages.set(position, other)
  }
  for (const message of published) note(message)
  for (const { client, events } of followers) {
    for (const event of events) if (event.kind === 'message') note(event, client)
  }
  return positions
}

/** Walks through what one client has seen of a topic. */
function checkFollower(events, { messages, acknowledged, positions }, report) {
  /** The joins that did not recover. Each tells the client that it may miss messages. */
  const tells = []
  /** By the id of each message: how many tells came before it. */
  const delivered = new Map()
  /** The acknowledged messages that later ones of their line have overtaken, and the violation of each. */
  const overtaken = new Map()
  const next = new Map()
  let last = null

  const isCovered = (message) => tells.some((tell) => covers(tell, message, positions.get(idOf(message))))
  /** Looks at the acknowledged messages of a line before its message `n`, which has just arrived, or at the end at all. */
  const pass = (line, n, text, at) => {
    const list = acknowledged.get(line) ?? []
    let index = next.get(line) ?? 0
    for (; index < list.length && list[index].n < n; index++) {
      const message = idOf(list[index])
      if (delivered.has(message) || isCovered(list[index])) continue
      overtaken.set(message, report({ kind: 'lost', message, at, text }))
    }
    next.set(line, index)
  }

  for (const event of events) {
    if (event.kind === 'joined') {
      if (event.recovered) continue
      tells.push(event)
      last = event.position
      continue
    }
    const { at, n, position } = event
    const message = idOf(event)
    if (!messages.has(message)) report({ kind: 'invented', message, at, text: 'nobody has published it' })
    const order = last && position ? isAfter(position, last) : undefined
    if (delivered.get(message) === tells.length) {
      report({ kind: 'double', message, at, text: `it has arrived before; now at ${position}` })
    } else if (overtaken.has(message)) {
      const violation = overtaken.get(message)
      Object.assign(violation, { kind: 'disorder', at, text: `${violation.text}; then it arrives at ${position}` })
    } else if (order === false) {
      report({ kind: 'disorder', message, at, text: `its position ${position} is not after ${last}` })
    }
    delivered.set(message, tells.length)
    last = position ?? last
    pass(lineOf(messages.get(message) ?? event), n, `it was acknowledged, and ${message} arrives without it`, at)
  }
  for (const line of acknowledged.keys()) pass(line, Infinity, 'it was acknowledged, and never arrives')
  for (const [message, violation] of overtaken) {
    if (violation.kind === 'lost' && isCovered(messages.get(message))) violation.kind = 'told late'
  }
}

/** Whether a join that did not recover tells the client that it may miss this message. */
function covers(tell, message, position) {
  const order = tell.position && position ? isAfter(position, tell.position) : undefined
  return order === undefined ? message.at < tell.at : !order
}

/** The smallest useful part of a history for a violation, as text. */
export function excerpt(history, { kind, topic, client, message, at, text }) {
  const head = [kind, topic, client && `client ${client}`, message && `message ${message}`].filter(Boolean).join(', ')
  const [sent] = (history.published ?? []).filter((one) => one.topic === topic && idOf(one) === message)
  const followers = (history.followers ?? []).filter((one) => one.topic === topic)
  const events = followers.find((one) => one.client === client)?.events ?? []
  const has = (event) => event.kind === 'message' && idOf(event) === message
  const those = followers.filter((one) => one.events.some(has)).map((one) => one.client)
  const from = sent?.at ?? at
  const until = at ?? from
  const rows = []
  const row = (time, line) => rows.push({ time, line: `  ${seconds(time).padStart(10)}  ${line}` })
  if (sent) row(sent.at, `sent; ${sent.acknowledged === null ? 'never acknowledged' : `acknowledged at ${seconds(sent.acknowledged)}`}`)
  for (const event of around(events, from, until, has)) {
    const isJoin = event.kind === 'joined'
    row(event.at, `${client} ${isJoin ? `joins, recovered: ${event.recovered}` : `gets ${idOf(event)}`}, position ${event.position}`)
  }
  for (const fault of (history.faults ?? []).filter((one) => one.at <= until).slice(-2)) {
    row(fault.at, `fault until ${seconds(fault.until)}: ${fault.what}`)
  }
  rows.sort((one, other) => one.time - other.time)
  const had = sent ? [`  ${those.length} of ${followers.length} clients of the topic have it: ${those.join(', ')}`] : []
  return [`${head}: ${text}`, ...rows.map(({ line }) => line), ...had].join('\n')
}

/** The events of a client that explain a violation: the message itself, and the messages and the joins before and after. */
function around(events, from, until, has) {
  const chosen = new Set(events.filter((event) => has(event) || event.at === until))
  for (const kind of ['joined', 'message']) {
    const all = events.filter((event) => event.kind === kind)
    chosen.add(all.findLast(({ at }) => at < from)).add(all.find(({ at }) => at > until))
  }
  return events.filter((event) => chosen.has(event))
}

/** A line for each fault and each kind of violation over the time of a history: `=` while a fault lasts, `x` at a violation. */
export function picture({ faults = [], published = [], followers = [] }, violations, width = 80) {
  const tells = followers.flatMap(({ events }) => events.filter(({ kind, recovered }) => kind === 'joined' && !recovered))
  const sent = new Map(published.map((one) => [`${one.topic} ${idOf(one)}`, one.at]))
  const timeOf = ({ topic, message, at }) => sent.get(`${topic} ${message}`) ?? at ?? 0
  const end = Math.max(1, ...faults.map(({ until }) => until), ...tells.map(({ at }) => at), ...violations.map(timeOf))
  const column = (at) => Math.min(width - 1, Math.floor((at / end) * width))
  const line = (name, mark, spans) => {
    const cells = Array(width).fill('.')
    for (const { at, until = at } of spans) cells.fill(mark, column(at), column(until) + 1)
    return `${name.slice(0, 28).padEnd(28)} ${cells.join('')}`
  }
  const rows = [...faults.map((fault) => line(fault.what, '=', [fault])), line('told', 'o', tells)]
  for (const [kind, all] of groupBy(violations, ({ kind }) => kind)) {
    const times = all.map((violation) => ({ at: timeOf(violation) }))
    rows.push(line(kind, 'x', times))
  }
  return [`0 to ${seconds(end)}`, ...rows].join('\n')
}
