import { signal, type ReadonlySignal } from '@preact/signals'
import type { Connection as Channels } from '@watchfire/client/connection'
import { plainName } from '../names/index.ts'

export interface RoomSession {
  /** Messages since this tab joined, oldest first; the oldest are dropped, see `ROOM_MESSAGES_MAX`. */
  readonly messages: ReadonlySignal<readonly RoomMessage[]>
  readonly state: ReadonlySignal<'joining' | 'joined' | { refused: string | null }>
  /** `null` until the room was joined. */
  readonly members: ReadonlySignal<Members | null>
  /** Changes the name under which this tab is a member. */
  rename(user: string): void
  /** Rejects when the queue of unsent messages is full. */
  send(user: string, body: string): Promise<SendResult>
  leave(): void
}

/** The result of sending a message; `refused` is the server's reason. */
export type SendResult = 'ok' | 'timeout' | 'offline' | { refused: string | null }

export interface RoomMessage {
  user: string
  /** `null`: the user entered the room. */
  body: string | null
  /** The sender's own timestamp. */
  at: Date
}

/** The members of a room: their number, and the names that the server shows. */
export interface Members {
  count: number
  users: readonly string[]
}

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
  return { user: readName(user), body: cut(body, BODY_LENGTH_MAX), at: readTime(at, now) }
}

/** Parses a `user_entered`; `null` when it is not valid. */
export function readEntry(payload: unknown, now: Date): RoomMessage | null {
  if (typeof payload !== 'object' || payload === null || !('user' in payload)) return null
  return { user: readName(payload.user), body: null, at: now }
}

/** Parses a `members`, or the reply to a join; `null` when it is not valid. */
export function readMembers(payload: unknown): Members | null {
  if (typeof payload !== 'object' || payload === null) return null
  const { count, users } = payload as Record<string, unknown>
  return typeof count === 'number' && Array.isArray(users) ? { count, users: users.map(readName) } : null
}

function readName(user: unknown): string {
  return (typeof user === 'string' && writeName(user)) || 'somebody'
}

function writeName(user: string): string {
  return cut(plainName(user).trim(), USER_LENGTH_MAX)
}

/** The payload of a message. */
export function writeMessage(user: string, body: string, now: Date): Record<string, unknown> {
  return {
    user: writeName(user),
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

/** Joins a room of the chat. `name` returns the name at each join. */
export function joinRoom(coming: Promise<Channels>, room: string, name: () => string): RoomSession {
  const messages = signal<readonly RoomMessage[]>([])
  const state = signal<'joining' | 'joined' | { refused: string | null }>('joining')
  const members = signal<Members | null>(null)
  const showMembers = (payload: unknown): void => {
    members.value = readMembers(payload) ?? members.peek()
  }
  const joining = coming.then((channels) =>
    channels.join(`rooms:${room}`, ['new_msg', 'user_entered', 'members'], {
      params: () => ({ user: writeName(name()) }),
      joined: (response) => {
        state.value = 'joined'
        showMembers(response)
      },
      lost: () => (state.value = 'joining'),
      refused: (response) => (state.value = { refused: reasonOf(response) }),
      message: (event, payload) => {
        if (event === 'members') return showMembers(payload)
        const message = event === 'new_msg' ? readMessage(payload, new Date()) : readEntry(payload, new Date())
        if (message !== null) messages.value = withMessage(messages.peek(), message)
      },
    }),
  )
  return {
    messages,
    state,
    members,
    rename: (user) =>
      void joining.then(
        (topic) => topic.push('enter', { user: writeName(user) }),
        () => undefined,
      ),
    async send(user, body) {
      const topic = await joining
      const reply = await topic.push('new_msg', writeMessage(user, body, new Date()))
      return reply.status === 'error' ? { refused: reasonOf(reply.response) } : reply.status
    },
    leave: () =>
      void joining.then(
        (topic) => topic.leave(),
        () => undefined,
      ),
  }
}

function reasonOf(response: unknown): string | null {
  if (typeof response !== 'object' || response === null || !('reason' in response)) return null
  return typeof response.reason === 'string' ? response.reason : null
}
