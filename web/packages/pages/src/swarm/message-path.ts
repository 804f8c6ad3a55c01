import type { Bytes } from '../content/index.ts'

/** A message that was sent on a path and may not have arrived. */
export interface UnacknowledgedMessage {
  readonly id: number
  readonly message: Bytes
  readonly resolve: () => void
  readonly reject: (reason: Error) => void
}

/** A path for messages besides the relay. */
export interface MessagePath {
  /** Whether messages may be sent on it. */
  readonly isUp: boolean
  /** Resolves when the message is sent. It may still be returned by `takeUnacknowledged`. */
  send(id: number, message: Bytes): Promise<void>
  /** Whether the other side may not have read a message that was sent on it. */
  hasUnread(id: number): boolean
  /** Tells the other side that its message was read. */
  acknowledge(id: number): void
  /** Takes all messages that may not have arrived. The caller is responsible for them from now on. */
  takeUnacknowledged(): UnacknowledgedMessage[]
}
