import type { Connection, Topic, TopicEvents } from '@watchfire/client/connection'
import { decodeSignal, encodeSignal } from './direct/signal.ts'
import { decodeSignalFrame, encodeSignalFrame } from './segment.ts'

/** One for each connection, because a page that is open twice on a connection is shared. */
const declining = new WeakMap<Connection, Connection>()

/**
 * This connection for pages without direct connections (`PageDeps.direct` is `null`), which would ignore calls. Here they are declined, so
 * that the caller need not wait for an answer before it calls another peer.
 */
export function withDeclinedCalls(connection: Connection): Connection {
  const known = declining.get(connection)
  if (known !== undefined) return known
  const wrapped: Connection = {
    get state() {
      return connection.state
    },
    subscribe: (listener) => connection.subscribe(listener),
    join: (name, names, events) => joinDeclining(connection, name, names, events),
    connect: (endPoint) => withDeclinedCalls(connection.connect(endPoint)),
    verify: () => connection.verify(),
    close: () => connection.close(),
  }
  declining.set(connection, wrapped)
  return wrapped
}

function joinDeclining(connection: Connection, name: string, names: readonly string[], events: TopicEvents): Topic {
  // Not a copy: the page may replace the functions later.
  const declining: TopicEvents = Object.assign(Object.create(events) as TopicEvents, {
    message(event: string, payload: unknown) {
      if (event === 'signal' && payload instanceof ArrayBuffer) decline(topic, payload)
      else events.message?.(event, payload)
    },
  })
  const topic = connection.join(name, names, declining)
  return topic
}

/** Declines the call or stream that a signal offers. A server that is too busy to forward that is not asked again. */
function decline(topic: Topic, frame: ArrayBuffer): void {
  const received = decodeSignalFrame(frame)
  if (received === null) return
  const signal = decodeSignal(received.signal)
  if (signal?.kind !== 'offer' && signal?.kind !== 'web_transport') return
  void topic.push('signal', encodeSignalFrame(received.from, encodeSignal({ kind: 'hang_up', call: signal.call, reason: 'failed' })))
}
