/** A message of Phoenix Channels, version 2: JSON if its payload is JSON, and binary if its payload is bytes. */
export interface Frame {
  readonly joinRef: string | null
  readonly ref: string | null
  readonly topic: string
  readonly event: string
  /** A `Uint8Array` is sent as bytes. Received bytes are an `ArrayBuffer`. */
  readonly payload: unknown
}

/** The numbers of names in the header of a binary message, by its kind: push, reply, broadcast. */
const NAMES_OF_KIND = [3, 4, 2]
const PUSH = 0
const NAME_BYTES_MAX = 255

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function encodeFrame({ joinRef, ref, topic, event, payload }: Frame): string | Uint8Array<ArrayBuffer> {
  if (!(payload instanceof Uint8Array)) return JSON.stringify([joinRef, ref, topic, event, payload])
  const names = [joinRef ?? '', ref ?? '', topic, event].map((name) => encoder.encode(name))
  const lengths = names.map(({ length }) => length)
  if (lengths.some((length) => length > NAME_BYTES_MAX)) throw new RangeError(`cannot send bytes to ${topic}: its name is too long`)
  const parts = [Uint8Array.of(PUSH, ...lengths), ...names, payload]
  const frame = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    frame.set(part, at)
    at += part.length
  }
  return frame
}

/** `null` if the message is not valid. */
export function decodeFrame(message: unknown): Frame | null {
  return message instanceof ArrayBuffer ? decodeBytes(message) : decodeText(String(message))
}

function decodeText(text: string): Frame | null {
  try {
    const [joinRef, ref, topic, event, payload] = JSON.parse(text) as unknown[]
    if (typeof topic !== 'string' || typeof event !== 'string') return null
    return { joinRef: textOrNull(joinRef), ref: textOrNull(ref), topic, event, payload }
  } catch {
    return null
  }
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function decodeBytes(message: ArrayBuffer): Frame | null {
  const bytes = new Uint8Array(message)
  const count = NAMES_OF_KIND[bytes[0] ?? -1]
  if (count === undefined) return null
  let at = 1 + count
  const names: string[] = []
  for (const length of bytes.subarray(1, at)) {
    names.push(decoder.decode(bytes.subarray(at, at + length)))
    at += length
  }
  if (names.length < count || at > bytes.length) return null
  const payload = message.slice(at)
  const [first = '', second = '', third = '', fourth = ''] = names
  if (count === 4) {
    return { joinRef: first || null, ref: second, topic: third, event: 'phx_reply', payload: { status: fourth, response: payload } }
  }
  if (count === 3) return { joinRef: first || null, ref: null, topic: second, event: third, payload }
  return { joinRef: null, ref: null, topic: first, event: second, payload }
}
