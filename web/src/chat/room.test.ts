import { describe, expect, it } from 'vitest'
import { BODY_LENGTH_MAX, readMessage, ROOM_MESSAGES_MAX, withMessage, writeMessage } from './room.ts'

const now = new Date('2026-05-01T10:00:00Z')

describe('a message of a room', () => {
  it('is unchanged after encoding and parsing', () => {
    const earlier = new Date('2026-05-01T09:59:00Z')
    expect(readMessage(writeMessage(' Ada ', ' hello ', earlier), now)).toEqual({
      user: 'Ada', body: 'hello', at: earlier,
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
