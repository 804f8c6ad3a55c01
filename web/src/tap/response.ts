import { attachment } from '../save/attachment.ts'
import { isPlayed } from '../render/played.ts'
import { refusalText, type Refusal } from '../words/refusals.ts'
import type { Way } from './words.ts'

/** A part of a file: its first byte, and the one after its last. */
export interface Range {
  readonly from: number
  readonly to: number
}

export interface Head {
  readonly status: number
  readonly headers: Record<string, string>
  /** What follows: a part of the file, a sentence, or nothing. */
  readonly body: Range | string | null
}

/** Wherever such bytes end up: nothing runs, nothing is fetched, nobody guesses another kind, nobody else reads them. */
const SEALED = {
  'content-security-policy': "sandbox; default-src 'none'",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

/** The head of the answer to a request for a file of that size, kind and name. */
export function headFor(way: Way, file: { size: number; mime: string; name: string }, range: string | null): Head {
  if (way === 'save') {
    const headers = {
      ...SEALED,
      // A sandbox without this may forbid the very saving.
      'content-security-policy': "sandbox allow-downloads; default-src 'none'",
      'content-type': 'application/octet-stream',
      'content-disposition': attachment(file.name),
      'content-length': String(file.size),
    }
    return { status: 200, headers, body: { from: 0, to: file.size } }
  }
  if (!isPlayed(file.mime)) return refusal(415, 'media')
  const headers = { ...SEALED, 'content-type': file.mime, 'accept-ranges': 'bytes' }
  const part = readRange(range, file.size)
  if (part === 'unsatisfiable') {
    return { status: 416, headers: { ...headers, 'content-range': `bytes */${file.size}` }, body: null }
  }
  if (part === null) {
    const whole = { from: 0, to: file.size }
    return { status: 200, headers: { ...headers, 'content-length': String(file.size) }, body: whole }
  }
  return {
    status: 206,
    headers: {
      ...headers,
      'content-length': String(part.to - part.from),
      'content-range': `bytes ${part.from}-${part.to - 1}/${file.size}`,
    },
    body: part,
  }
}

/** An answer that only says why there is none. */
export function refusal(status: number, why: Refusal): Head {
  return { status, headers: { ...SEALED, 'content-type': 'text/plain; charset=utf-8' }, body: refusalText(why) }
}

/** Reads a `Range` header of one part; `null` when the whole is meant, as for headers that nobody can read (RFC 9110). */
export function readRange(header: string | null, size: number): Range | 'unsatisfiable' | null {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '') ?? []
  if (first === undefined || last === undefined || first + last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { from: size - length, to: size }
  }
  const from = Number(first)
  if (last !== '' && Number(last) < from) return null
  if (from >= size) return 'unsatisfiable'
  return { from, to: last === '' ? size : Math.min(Number(last) + 1, size) }
}
