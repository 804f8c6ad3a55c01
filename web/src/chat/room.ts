import type { RoomMessage } from '../ui/site.ts'

/** Messages kept of a room; older ones are dropped. */
export const ROOM_MESSAGES_MAX = 200
/** Letters of a message and of a name; what is longer is cut, here and when it arrives. */
export const BODY_LENGTH_MAX = 2000
export const USER_LENGTH_MAX = 40

/** Reads a `new_msg`, which anybody may have sent in any shape; `null` when it says nothing. */
export function readMessage(payload: unknown, now: Date): RoomMessage | null {
  if (typeof payload !== 'object' || payload === null) return null
  const { user, body, at } = payload as Record<string, unknown>
  if (typeof body !== 'string' || body.trim() === '') return null
  const named = typeof user === 'string' ? user.trim().slice(0, USER_LENGTH_MAX) : ''
  return { user: named || 'somebody', body: body.slice(0, BODY_LENGTH_MAX), at: readTime(at, now) }
}

/** What is sent for a message. */
export function writeMessage(user: string, body: string, now: Date): Record<string, unknown> {
  return {
    user: user.trim().slice(0, USER_LENGTH_MAX),
    body: body.trim().slice(0, BODY_LENGTH_MAX),
    at: now.toISOString(),
  }
}

/** The messages with one more, and no more than a room keeps. */
export function withMessage(messages: readonly RoomMessage[], message: RoomMessage): RoomMessage[] {
  return [...messages.slice(-(ROOM_MESSAGES_MAX - 1)), message]
}

/** A sender's clock may be wrong or absent; ours is good enough then. */
function readTime(at: unknown, now: Date): Date {
  const time = new Date(typeof at === 'string' || typeof at === 'number' ? at : Number.NaN)
  return Number.isNaN(time.getTime()) ? now : time
}
