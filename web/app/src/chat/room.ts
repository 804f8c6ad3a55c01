import { plainName } from '../names/index.ts'
import type { RoomMessage } from '../ui/site.ts'

/** Messages kept per room; older ones are dropped. */
export const ROOM_MESSAGES_MAX = 200
/** Longest message and name, in characters; longer ones are cut when sent and when received. */
export const BODY_LENGTH_MAX = 2000
export const USER_LENGTH_MAX = 40

/** Parses a `new_msg`. Any client may have sent it in any shape; `null` when it is not valid. */
export function readMessage(payload: unknown, now: Date): RoomMessage | null {
  if (typeof payload !== 'object' || payload === null) return null
  const { user, body, at } = payload as Record<string, unknown>
  if (typeof body !== 'string' || body.trim() === '') return null
  const named = typeof user === 'string' ? cut(plainName(user).trim(), USER_LENGTH_MAX) : ''
  return { user: named || 'somebody', body: cut(body, BODY_LENGTH_MAX), at: readTime(at, now) }
}

/** The payload of a message. */
export function writeMessage(user: string, body: string, now: Date): Record<string, unknown> {
  return {
    user: cut(plainName(user).trim(), USER_LENGTH_MAX),
    body: cut(body.trim(), BODY_LENGTH_MAX),
    at: now.toISOString(),
  }
}

/** Appends a message and drops the oldest beyond the limit. */
export function withMessage(messages: readonly RoomMessage[], message: RoomMessage): RoomMessage[] {
  return [...messages.slice(-(ROOM_MESSAGES_MAX - 1)), message]
}

/** The first characters of a text, without half an emoji at the end, which many clients cannot read. */
function cut(text: string, lengthMax: number): string {
  return text
    .slice(0, lengthMax)
    .replace(/[\ud800-\udbff]$/, '')
    .toWellFormed()
}

/** The sender's clock may be wrong or absent; then the local time is used. */
function readTime(at: unknown, now: Date): Date {
  const time = new Date(typeof at === 'string' || typeof at === 'number' ? at : Number.NaN)
  return Number.isNaN(time.getTime()) ? now : time
}
