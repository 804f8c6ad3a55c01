// A peer of a page without a browser: the stock Phoenix client, with hand-written messages.

import { setTimeout } from 'node:timers/promises'

import { Socket } from 'phoenix-1.8.16'
import { WebSocket } from 'ws'

import { Inbox, withTimeout } from '../lib/deadlines.mjs'
import { blockMessage, presenceMessage, wantsIn } from './bitswap-messages.mjs'

const PEER_BYTES = 8
const SEGMENT_HEAD_BYTES = 12
const FRAME_BYTES_MAX = 65_536

/**
 * Joins the page and answers wants with the result of `answer(wants, { from, cancelled, peer })`. `params` are further members
 * of the join.
 */
export async function joinPage(t, server, cid, have, answer, params = {}) {
  const socket = new Socket(server.endpoint, { transport: WebSocket })
  const channel = socket.channel(`page:${cid}`, { have, ...params })
  const peer = new RawPeer(socket, channel, answer)
  t.after(peer.leave)
  socket.connect()
  const { status, response } = await replyTo(channel.join())
  if (status !== 'ok') throw new Error(`cannot join the page: ${JSON.stringify(response)}`)
  peer.id = response.peer
  peer.introduced = response.peers.map(({ peer: id }) => Buffer.from(id, 'hex'))
  return peer
}

/** Answers as an honest holder of these blocks. */
export function honestHolder(blocks) {
  return (wants) => {
    const here = ({ cid }) => blocks.get(cid.toString('hex'))
    return {
      blocks: wants.filter((want) => !want.have && here(want)).map(here),
      has: wants.filter((want) => want.have && here(want)).map(({ cid }) => cid),
      lacks: wants.filter((want) => !here(want)).map(({ cid }) => cid),
    }
  }
}

/** Has these blocks, and sends each of them once. It does not reply to a second request for it. */
export function onceHolder(blocks) {
  const honest = honestHolder(blocks)
  const sent = new Set()
  return (wants) => {
    const reply = honest(wants)
    const unsent = reply.blocks.filter((block) => !sent.has(block))
    for (const block of unsent) sent.add(block)
    return { ...reply, blocks: unsent }
  }
}

/** Claims every block, and sends wrong bytes. */
export function lyingHolder() {
  return (wants) => ({
    blocks: wants.filter(({ have }) => !have).map(({ cid }) => ({ cid, bytes: Buffer.from('not the requested bytes') })),
    has: wants.filter(({ have }) => have).map(({ cid }) => cid),
    lacks: [],
  })
}

/** Claims every block, and never replies. */
export function silentHolder() {
  return () => ({ blocks: [], has: [], lacks: [] })
}

/**
 * An honest holder that sends a limited number of blocks. It sends pending blocks as soon as the limit allows, by
 * the priority of the want, and drops cancelled ones. It sends each block once: a peer that changes the priority of a
 * want while the block is on its way sends the want again.
 */
export class LimitedHolder {
  sent = 0
  #blocks
  #allowed = 0
  #pending = new Map()
  /** Each block that was sent, with its receiver. */
  #delivered = new Set()
  #peer = null

  constructor(blocks, allowed) {
    this.#blocks = blocks
    this.#allowed = allowed
  }

  answer = (wants, { from, cancelled, peer }) => {
    this.#peer = peer
    for (const cid of cancelled) this.#pending.delete(cid.toString('hex'))
    for (const want of wants.filter(({ have }) => !have)) {
      const key = want.cid.toString('hex')
      if (!this.#delivered.has(deliveryOf(key, from))) this.#pending.set(key, { ...want, from })
    }
    this.#sendAllowed()
    return { ...honestHolder(this.#blocks)(wants.filter(({ have }) => have)), blocks: [] }
  }

  /** The pending block that is sent next. */
  get mostUrgent() {
    return this.#sorted()[0]?.[0]
  }

  /** Allows this number of further blocks. */
  allow(more) {
    this.#allowed = this.sent + more
    this.#sendAllowed()
  }

  #sorted() {
    return [...this.#pending].sort(([, a], [, b]) => b.priority - a.priority)
  }

  #sendAllowed() {
    for (const [key, { from }] of this.#sorted().slice(0, this.#allowed - this.sent)) {
      this.#pending.delete(key)
      this.#delivered.add(deliveryOf(key, from))
      this.sent += 1
      this.#peer.sendBlock(from, this.#blocks.get(key))
    }
  }
}

const deliveryOf = (key, from) => `${key} to ${from.toString('hex')}`

class RawPeer {
  id
  /** The ids of the peers to which it was introduced. */
  introduced
  /** Wants received from other peers, without cancels. */
  wantsReceived = []
  blocksSent = 0
  /** The counts that the server sent. */
  counts = new Inbox()
  /** Other peers that joined, as the server announced them. */
  joined = new Inbox()
  /** The most bytes of a message in one segment, and the pause after each segment. */
  segmentBytes = FRAME_BYTES_MAX - PEER_BYTES - SEGMENT_HEAD_BYTES
  pauseMs = 0
  #socket
  #channel
  #answer
  #hasLeft = false
  #messages = new Map()
  #lastMessage = 0
  #sending = Promise.resolve()

  constructor(socket, channel, answer) {
    this.#socket = socket
    this.#channel = channel
    this.#answer = answer
    channel.on('counts', this.counts.put)
    channel.on('peer_joined', this.joined.put)
    channel.on('relay', (data) => this.#receive(Buffer.from(data)))
  }

  /** Leaves the page. Messages that are still queued are dropped: each would wait for a reply until its timeout. */
  leave = () => {
    this.#hasLeft = true
    return new Promise((resolve) => this.#socket.disconnect(resolve))
  }

  #receive(frame) {
    const from = frame.subarray(0, PEER_BYTES)
    const id = `${from.toString('hex')}/${frame.readUInt32BE(PEER_BYTES)}`
    const offset = frame.readUInt32BE(PEER_BYTES + 4)
    const total = frame.readUInt32BE(PEER_BYTES + 8)
    const part = frame.subarray(PEER_BYTES + SEGMENT_HEAD_BYTES)
    const message = this.#messages.get(id) ?? { bytes: Buffer.alloc(total), missing: total }
    this.#messages.set(id, message)
    part.copy(message.bytes, offset)
    message.missing -= part.length
    if (message.missing > 0) return
    this.#messages.delete(id)
    this.#handleMessage(from, message.bytes)
  }

  #handleMessage(from, message) {
    const entries = wantsIn(message)
    if (entries.length === 0) return
    const wants = entries.filter(({ cancel }) => !cancel)
    const cancelled = entries.filter(({ cancel }) => cancel).map(({ cid }) => cid)
    this.wantsReceived.push(...wants)
    const { blocks, has, lacks } = this.#answer(wants, { from, cancelled, peer: this })
    for (const block of blocks) this.sendBlock(from, block)
    if (has.length > 0) this.#queue(from, presenceMessage(has, true))
    if (lacks.length > 0) this.#queue(from, presenceMessage(lacks, false))
  }

  /** Sends a block after all messages queued before it. */
  sendBlock(to, block) {
    this.#queue(to, blockMessage([block]), () => (this.blocksSent += 1))
  }

  /** Resolves when all messages queued so far are sent. */
  whenSent() {
    return this.#sending
  }

  #queue(to, message, sent = () => {}) {
    this.#sending = this.#sending.then(() => this.sendMessage(to, message)).then(sent, () => {})
  }

  /** Sends a whole message in segments, and retries those that the server rejects for now. */
  async sendMessage(to, message) {
    const id = ++this.#lastMessage
    const room = this.segmentBytes
    for (let offset = 0; offset === 0 || offset < message.length; offset += room) {
      const head = Buffer.alloc(SEGMENT_HEAD_BYTES)
      head.writeUInt32BE(id, 0)
      head.writeUInt32BE(offset, 4)
      head.writeUInt32BE(message.length, 8)
      await this.relay(Buffer.concat([to, head, message.subarray(offset, offset + room)]))
      if (this.pauseMs > 0) await setTimeout(this.pauseMs)
    }
  }

  /** Relays one frame unchanged: the destination peer, then its payload. */
  relay(frame) {
    return this.#push('relay', frame)
  }

  /** Sends one signal unchanged, in the same form. */
  signal(frame) {
    return this.#push('signal', frame)
  }

  /** Sends an event with a JSON payload, and returns the reply. */
  push(event, payload) {
    return replyTo(this.#channel.push(event, payload))
  }

  async #push(event, frame) {
    for (;;) {
      if (this.#hasLeft) throw new Error(`cannot send the ${event}: the peer has left the page`)
      const { status, response } = await replyTo(this.#channel.push(event, toArrayBuffer(frame)))
      if (status === 'ok') return
      if (response.retry_after_ms === undefined) throw new Error(`the server rejected the ${event}: ${JSON.stringify(response)}`)
      await setTimeout(response.retry_after_ms)
    }
  }
}

/** The reply of the server. */
function replyTo(push) {
  const answer = new Promise((resolve) => {
    for (const status of ['ok', 'error', 'timeout']) push.receive(status, (response) => resolve({ status, response }))
  })
  return withTimeout(answer, `a reply to ${push.event}`)
}

/** The client sends an ArrayBuffer as bytes, and nothing else. */
function toArrayBuffer(buffer) {
  return buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.length)
}
