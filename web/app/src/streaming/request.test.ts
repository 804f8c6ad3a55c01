import { describe, expect, it } from 'vitest'
import { fileUrl, parseRequest, type RequestHead } from './request.ts'

const ORIGIN = 'https://fire.example'
const TICKET = '0123456789abcdef-0123'

function request(path: string, part: Partial<RequestHead> = {}): RequestHead {
  const headers = new Headers()
  return { url: new URL(path, ORIGIN).href, method: 'GET', destination: 'video', mode: 'no-cors', headers, ...part }
}
const stream = fileUrl('stream', 'bafy', TICKET, 'Grüße 世界.webm')
const save = fileUrl('save', 'bafy', TICKET, 'a/b?c#d.webm')

describe('the worker', () => {
  it('answers only its own two kinds of URLs, and leaves all others to the server', () => {
    for (const path of ['/', '/p/bafy', '/assets/x.js', '/socket/websocket', '/streams', '/save.html', '/frame', '/worker.js']) {
      expect(parseRequest(request(path), ORIGIN), path).toBe(null)
    }
    expect(parseRequest(request('https://elsewhere.example/stream/a/b/c'), ORIGIN)).toBe(null)
  })

  it('accepts a URL with a name in any script', () => {
    expect(parseRequest(request(stream), ORIGIN)).toEqual({ kind: 'file', purpose: 'stream', ticket: TICKET, range: null })
    const headers = new Headers({ range: 'bytes=5-' })
    expect(parseRequest(request(stream, { destination: 'audio', headers }), ORIGIN)).toMatchObject({ range: 'bytes=5-' })
    expect(parseRequest(request(stream, { destination: 'image' }), ORIGIN)).toMatchObject({ kind: 'file', purpose: 'stream' })
    const frame = { mode: 'navigate', destination: 'iframe' }
    expect(parseRequest(request(save, frame), ORIGIN)).toEqual({ kind: 'file', purpose: 'save', ticket: TICKET, range: null })
  })

  it('serves a stream to media and image elements only', () => {
    const others = [
      '',
      'document',
      'iframe',
      'frame',
      'object',
      'embed',
      'script',
      'worker',
      'sharedworker',
      'serviceworker',
      'style',
      'font',
      'track',
      'manifest',
      'report',
      'xslt',
      'json',
      'audioworklet',
      'paintworklet',
    ]
    for (const destination of others) {
      expect(parseRequest(request(stream, { destination }), ORIGIN), destination).toMatchObject({ kind: 'refused', status: 403 })
    }
  })

  it('saves only when a frame navigates to the URL', () => {
    for (const part of [
      { mode: 'navigate', destination: 'document' },
      { mode: 'cors', destination: '' },
      { mode: 'no-cors', destination: 'video' },
    ]) {
      expect(parseRequest(request(save, part), ORIGIN)).toMatchObject({ kind: 'refused', status: 403 })
    }
  })

  it('refuses other methods, and URLs without a ticket', () => {
    expect(parseRequest(request(stream, { method: 'POST' }), ORIGIN)).toMatchObject({ status: 405 })
    for (const path of ['/stream', '/stream/', '/stream/bafy', '/stream/bafy/short/x', '/save/bafy/../x', `/stream/a/${TICKET}/b/c`]) {
      expect(parseRequest(request(path), ORIGIN), path).toMatchObject({ kind: 'refused', status: 404 })
    }
  })
})
