import { describe, expect, it } from 'vitest'
import {
  BODY_LENGTH_MAX,
  readEntry,
  readMembers,
  readMessage,
  ROOM_MESSAGES_MAX,
  USER_LENGTH_MAX,
  withMessage,
  writeMessage,
} from './room.ts'

const now = new Date('2026-05-01T10:00:00Z')

describe('a message of a room', () => {
  it('is unchanged after encoding and parsing', () => {
    const earlier = new Date('2026-05-01T09:59:00Z')
    expect(readMessage(writeMessage(' Ada ', ' hello ', earlier), now)).toEqual({
      user: 'Ada',
      body: 'hello',
      at: earlier,
    })
  })

  it('may lack fields', () => {
    expect(readMessage({ body: 'hi' }, now)).toEqual({ user: 'somebody', body: 'hi', at: now })
    expect(readMessage({ body: 'hi', user: 7, at: 'soon' }, now)).toMatchObject({ at: now })
  })

  it.each([null, 'hi', 7, [], {}, { body: '' }, { body: ' ' }, { body: { text: 'hi' } }])(
    'says nothing in any other shape: %j',
    (payload) => expect(readMessage(payload, now)).toBeNull(),
  )

  it('is cut to the length that a room shows', () => {
    const long = readMessage({ user: 'u'.repeat(999), body: 'b'.repeat(99_999) }, now)
    expect(long?.body).toHaveLength(BODY_LENGTH_MAX)
    expect(long?.user).toHaveLength(40)
  })
})

describe('a name and a message', () => {
  it('are never cut inside an emoji', () => {
    const { user, body } = writeMessage(`${'x'.repeat(USER_LENGTH_MAX - 1)}🔥`, `${'y'.repeat(BODY_LENGTH_MAX - 1)}🔥`, now)
    expect(user).toBe('x'.repeat(USER_LENGTH_MAX - 1))
    expect(body).toBe('y'.repeat(BODY_LENGTH_MAX - 1))
    expect(readMessage({ user: '\ud83d', body: 'half \ud83d of one' }, now)).toMatchObject({ user: 'somebody', body: 'half \ufffd of one' })
  })

  it('have no hidden characters in the name, so that two names do not look alike', () => {
    expect(readMessage({ user: 'ad\u200bmin\u202e', body: 'a' }, now)).toMatchObject({ user: 'admin' })
    expect(readMessage({ user: '\u200b', body: 'a' }, now)).toMatchObject({ user: 'somebody' })
    expect(writeMessage('\u2066Ada\u2069', 'a', now)).toMatchObject({ user: 'Ada' })
  })
})

describe('the members of a room', () => {
  it('are a number and some names, without hidden characters', () => {
    expect(readMembers({ count: 100_000, users: ['Ada', 'ad\u200bmin', 7] })).toEqual({
      count: 100_000,
      users: ['Ada', 'admin', 'somebody'],
    })
    expect(readEntry({ user: ' Ada\u202e' }, now)).toEqual({ user: 'Ada', body: null, at: now })
  })

  it.each([null, 7, {}, { count: '1', users: [] }, { count: 1, users: 'Ada' }])('are unknown in any other shape: %j', (payload) =>
    expect([readMembers(payload), readEntry(payload, now)]).toEqual([null, null]),
  )
})

describe('a room', () => {
  it('keeps the latest messages', () => {
    let messages: ReturnType<typeof withMessage> = []
    for (let n = 0; n < ROOM_MESSAGES_MAX + 5; n += 1) {
      messages = withMessage(messages, { user: 'a', body: String(n), at: now })
    }
    expect(messages).toHaveLength(ROOM_MESSAGES_MAX)
    expect(messages[0]?.body).toBe('5')
    expect(messages.at(-1)?.body).toBe(String(ROOM_MESSAGES_MAX + 4))
  })
})
