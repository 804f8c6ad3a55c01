import { bytesOf, decodeFields, MessageWriter, textOf, utf8, type Bytes } from '@watchfire/pages/content'

/** The buckets of a history, at most. */
const BUCKETS_MAX = 64
/** The width of a bucket of a young page, in seconds. It doubles whenever the buckets are full. */
const WIDTH_MIN = 5
/** A history that claims more is ignored: ten years, and that many people. */
const AGE_MAX = 10 * 365 * 86_400
const PEOPLE_MAX = 1_000_000_000
/** The longest message. A valid one is shorter. */
const BYTES_MAX = 1024
/** The field of a history in a Bitswap message, and how a message with it begins: an empty wantlist, and the key of the field. */
const FIELD = 1003
const BEGIN = [0x0a, 0x00, 0xda, 0x3e]
/** Two tabs whose ages differ by less know the same beginning, in seconds: a message takes time, and ages are sent in whole seconds. */
const SAME_AGE = 2

/**
 * The viewers of a page over time, up to a moment that both sides know. It has ages and no times, because the clocks of two machines may
 * differ by hours. The width of the buckets follows from the age, so two histories of one page fit together without further agreement.
 */
export interface History {
  /** The seconds since the page was first available. */
  readonly age: number
  /** The most people at the same time in each bucket, the oldest first. The last one is not over. 0: unknown. */
  readonly people: readonly number[]
}

/** The history of a page that is first available now. */
export const BEGINNING: History = { age: 0, people: [0] }

/** The history `seconds` later, if `now` people had the page open all the time. 0: unknown. */
export function after(before: History, seconds: number, now: number): History {
  const age = Math.min(AGE_MAX, before.age + seconds)
  const people = spread(before, age, 0)
  for (let i = bucketOf(before.age, age); i < people.length; i++) people[i] = Math.max(people[i] ?? 0, now)
  return { age, people }
}

/** All that two histories tell, at the same moment. */
export function merge(a: History, b: History): History {
  const age = Math.max(a.age, b.age)
  const others = spread(b, age, age - b.age)
  return { age, people: spread(a, age, age - a.age).map((people, i) => Math.max(people, others[i] ?? 0)) }
}

/**
 * Whether one history tells something that the other one does not, at the same moment. Of the present bucket, all learn from the server,
 * one a little earlier than the other. A message takes time, so the same people may be one bucket later.
 */
export function tellsMore(one: History, other: History): boolean {
  const { age, people } = merge(one, other)
  const known = spread(other, age, age - other.age)
  return age >= other.age + SAME_AGE || people.slice(0, -1).some((count, i) => count > Math.max(...known.slice(Math.max(0, i - 1), i + 2)))
}

/** The most people who had the page open at the same time. */
export function mostOf({ people }: History): number {
  return Math.max(...people)
}

/** A history as peers and this tab's storage have it: the age, and the people of each bucket. */
export function numbersOf({ age, people }: History): number[] {
  return [Math.floor(age), ...people]
}

/** Returns `null` for anything but a history. */
export function historyOf(numbers: unknown): History | null {
  if (!Array.isArray(numbers) || !numbers.every((each) => Number.isSafeInteger(each) && each >= 0)) return null
  const [age, ...people] = numbers as number[]
  if (age === undefined || age > AGE_MAX || people.length !== bucketOf(age, age) + 1 || people.some((each) => each > PEOPLE_MAX))
    return null
  return { age, people }
}

/** A Bitswap message with a history and nothing else. */
export function encodeMessage(history: History): Bytes {
  return new MessageWriter()
    .message(1, new MessageWriter())
    .bytes(FIELD, utf8(JSON.stringify(numbersOf(history))))
    .finish()
}

/** Returns `null` for any other message. Most are, so that is found out from the first bytes. */
export function decodeMessage(message: Bytes): History | null {
  if (message.length > BYTES_MAX || !BEGIN.every((byte, i) => byte === message[i])) return null
  try {
    const [, field] = decodeFields(message)
    return field ? historyOf(JSON.parse(textOf(bytesOf(field)) ?? '')) : null
  } catch {
    return null
  }
}

/** The width of the buckets of a page of that age, in seconds. */
function widthOf(age: number): number {
  let width = WIDTH_MIN
  while (age >= width * BUCKETS_MAX) width *= 2
  return width
}

/** The bucket in which a page had that age, once it is as old as `age`. */
function bucketOf(then: number, age: number): number {
  return Math.floor(then / widthOf(age))
}

/** The buckets of a history for a page of another age, which was available `offset` seconds before the history begins. */
function spread({ age: known, people }: History, age: number, offset: number): number[] {
  const width = widthOf(known)
  const buckets = Array<number>(bucketOf(age, age) + 1).fill(0)
  people.forEach((count, i) => {
    const middle = (i * width + Math.min(known, (i + 1) * width)) / 2
    // Sums of seconds are rounded.
    const bucket = Math.min(buckets.length - 1, bucketOf(offset + middle, age))
    buckets[bucket] = Math.max(buckets[bucket] ?? 0, count)
  })
  return buckets
}
