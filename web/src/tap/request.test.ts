import { describe, expect, it } from 'vitest'
import { fileAddress, readRequest, type RequestHead } from './request.ts'

const ORIGIN = 'https://fire.example'
const TICKET = '0123456789abcdef-0123'

function request(path: string, part: Partial<RequestHead> = {}): RequestHead {
  const headers = new Headers()
  return { url: new URL(path, ORIGIN).href, method: 'GET', destination: 'video', mode: 'no-cors', headers, ...part }
}
const stream = fileAddress('stream', 'bafy', TICKET, 'Grüße 世界.webm')
const save = fileAddress('save', 'bafy', TICKET, 'a/b?c#d.webm')

describe('the worker', () => {
  it('leaves everything to the server but the two kinds of addresses of its own', () => {
    for (const path of ['/', '/p/bafy', '/assets/x.js', '/socket/websocket', '/streams', '/save.html', '/frame', '/worker.js']) {
      expect(readRequest(request(path), ORIGIN), path).toBe(null)
    }
    expect(readRequest(request('https://elsewhere.example/stream/a/b/c'), ORIGIN)).toBe(null)
  })

  it('reads an address with a name of any script', () => {
    expect(readRequest(request(stream), ORIGIN)).toEqual({ kind: 'file', way: 'stream', ticket: TICKET, range: null })
    const headers = new Headers({ range: 'bytes=5-' })
    expect(readRequest(request(stream, { destination: 'audio', headers }), ORIGIN)).toMatchObject({ range: 'bytes=5-' })
    const frame = { mode: 'navigate', destination: 'iframe' }
    expect(readRequest(request(save, frame), ORIGIN)).toEqual({ kind: 'file', way: 'save', ticket: TICKET, range: null })
  })

  it('gives a stream to players only, whatever else asks for it', () => {
    const others = ['', 'document', 'iframe', 'frame', 'object', 'embed', 'script', 'worker', 'sharedworker', 'serviceworker',
      'style', 'image', 'font', 'track', 'manifest', 'report', 'xslt', 'json', 'audioworklet', 'paintworklet']
    for (const destination of others) {
      expect(readRequest(request(stream, { destination }), ORIGIN), destination).toMatchObject({ kind: 'refused', status: 403 })
    }
  })

  it('saves only into a frame that becomes a download', () => {
    for (const part of [{ mode: 'navigate', destination: 'document' }, { mode: 'cors', destination: '' }, { mode: 'no-cors', destination: 'video' }]) {
      expect(readRequest(request(save, part), ORIGIN)).toMatchObject({ kind: 'refused', status: 403 })
    }
  })

  it('refuses other methods, and addresses without a ticket', () => {
    expect(readRequest(request(stream, { method: 'POST' }), ORIGIN)).toMatchObject({ status: 405 })
    for (const path of ['/stream', '/stream/', '/stream/bafy', '/stream/bafy/short/x', '/save/bafy/../x', `/stream/a/${TICKET}/b/c`]) {
      expect(readRequest(request(path), ORIGIN), path).toMatchObject({ kind: 'refused', status: 404 })
    }
  })
})
