import { refusalText, type Refusal } from '../messages/refusals.ts'
import { isStreamedType } from './media-types.ts'
import { attachment } from './attachment.ts'
import { parseRange, type Range } from '../service-worker/range.ts'
import type { Purpose } from './protocol.ts'

export interface Head {
  readonly status: number
  readonly headers: Record<string, string>
  /** The body: a part of the file, a sentence, or nothing. */
  readonly body: Range | string | null
}

/** With these headers the bytes cannot run, fetch, be sniffed as another type, be cached, or be read by another origin. */
const SANDBOX_HEADERS = {
  'content-security-policy': "sandbox; default-src 'none'",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

/** The head of the response to a request for a file of that size, type and name. */
export function headFor(purpose: Purpose, file: { size: number; mime: string; name: string }, range: string | null): Head {
  if (purpose === 'save') {
    const headers = {
      ...SANDBOX_HEADERS,
      // Without `allow-downloads` the sandbox may block the download itself.
      'content-security-policy': "sandbox allow-downloads; default-src 'none'",
      'content-type': 'application/octet-stream',
      'content-disposition': attachment(file.name),
      'content-length': String(file.size),
    }
    return { status: 200, headers, body: { from: 0, to: file.size } }
  }
  if (!isStreamedType(file.mime)) return refusal(415, 'media')
  const headers = { ...SANDBOX_HEADERS, 'content-type': file.mime, 'accept-ranges': 'bytes' }
  const part = parseRange(range, file.size)
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

/** A response that carries only the reason for a refusal. */
export function refusal(status: number, why: Refusal): Head {
  return { status, headers: { ...SANDBOX_HEADERS, 'content-type': 'text/plain; charset=utf-8' }, body: refusalText(why) }
}
