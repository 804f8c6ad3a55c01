import { describe, expect, it } from 'vitest'
import { headFor } from './response.ts'

const film = { size: 1000, mime: 'video/webm', name: 'Grüße 世界 "🔥".webm' }

describe('a response', () => {
  it('to a player states which part it holds', () => {
    const { status, headers, body } = headFor('stream', film, 'bytes=500-')
    expect([status, body]).toEqual([206, { from: 500, to: 1000 }])
    expect(headers).toMatchObject({
      'content-type': 'video/webm',
      'content-length': '500',
      'content-range': 'bytes 500-999/1000',
      'accept-ranges': 'bytes',
    })
    expect(headFor('stream', film, null)).toMatchObject({ status: 200, headers: { 'content-length': '1000' } })
    expect(headFor('stream', film, 'bytes=1000-')).toMatchObject({
      status: 416,
      headers: { 'content-range': 'bytes */1000' },
      body: null,
    })
  })

  it('never has a type that a browser would run or display as a document', () => {
    for (const mime of ['text/html', 'image/svg+xml', 'text/javascript', 'application/pdf', 'video/', '', 'video/webm; x=<']) {
      expect(headFor('stream', { ...film, mime }, null), mime).toMatchObject({
        status: 415,
        body: 'Only audio, video and pictures can be streamed from this address.',
      })
    }
    expect(headFor('save', { ...film, mime: 'text/html' }, null).headers['content-type']).toBe('application/octet-stream')
  })

  it('is sandboxed in every case', () => {
    for (const head of [headFor('stream', film, null), headFor('save', film, null), headFor('stream', { ...film, mime: '' }, null)]) {
      expect(head.headers['content-security-policy']).toMatch(/^sandbox( allow-downloads)?; default-src 'none'$/)
      expect(head.headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
    }
  })

  it('for saving carries the file name in any script', () => {
    const { status, headers } = headFor('save', film, 'bytes=5-')
    expect(status).toBe(200)
    expect(headers['content-disposition']).toBe(
      `attachment; filename="Gru__e __ ___.webm"; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%E4%B8%96%E7%95%8C%20%22%F0%9F%94%A5%22.webm`,
    )
    // Any name must be valid in a header.
    expect(() => new Headers({ x: headers['content-disposition'] ?? '' })).not.toThrow()
    expect(
      () => new Headers({ x: headFor('save', { ...film, name: 'a\r\nb: c\ud800"\\%\u0000' }, null).headers['content-disposition'] ?? '' }),
    ).not.toThrow()
  })
})
