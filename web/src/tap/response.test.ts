import { describe, expect, it } from 'vitest'
import { headFor, readRange } from './response.ts'

const film = { size: 1000, mime: 'video/webm', name: 'Grüße 世界 "🔥".webm' }

describe('a range', () => {
  it('is read as the RFC says', () => {
    expect(readRange('bytes=0-', 1000)).toEqual({ from: 0, to: 1000 })
    expect(readRange('bytes=10-19', 1000)).toEqual({ from: 10, to: 20 })
    expect(readRange('bytes=990-5000', 1000)).toEqual({ from: 990, to: 1000 })
    expect(readRange('bytes=-100', 1000)).toEqual({ from: 900, to: 1000 })
    expect(readRange('bytes=-5000', 1000)).toEqual({ from: 0, to: 1000 })
  })

  it('beyond the end cannot be satisfied', () => {
    for (const header of ['bytes=1000-', 'bytes=5000-6000', 'bytes=-0']) expect(readRange(header, 1000)).toBe('unsatisfiable')
    expect(readRange('bytes=0-', 0)).toBe('unsatisfiable')
  })

  it('that nobody can read means the whole', () => {
    for (const header of [null, '', 'bytes=-', 'bytes=5-2', 'bytes=0-1,5-6', 'lines=1-2', 'bytes=a-b']) {
      expect(readRange(header, 1000)).toBe(null)
    }
  })
})

describe('an answer', () => {
  it('to a player says which part it is', () => {
    const { status, headers, body } = headFor('stream', film, 'bytes=500-')
    expect([status, body]).toEqual([206, { from: 500, to: 1000 }])
    expect(headers).toMatchObject({
      'content-type': 'video/webm', 'content-length': '500', 'content-range': 'bytes 500-999/1000', 'accept-ranges': 'bytes',
    })
    expect(headFor('stream', film, null)).toMatchObject({ status: 200, headers: { 'content-length': '1000' } })
    expect(headFor('stream', film, 'bytes=1000-')).toMatchObject({
      status: 416, headers: { 'content-range': 'bytes */1000' }, body: null,
    })
  })

  it('is never of a kind that a browser would run or show by itself', () => {
    for (const mime of ['text/html', 'image/svg+xml', 'text/javascript', 'application/pdf', 'video/', '', 'video/webm; x=<']) {
      expect(headFor('stream', { ...film, mime }, null), mime).toMatchObject({ status: 415, body: 'Only sounds and films are streamed.' })
    }
    expect(headFor('save', { ...film, mime: 'text/html' }, null).headers['content-type']).toBe('application/octet-stream')
  })

  it('is sealed, whatever it is', () => {
    for (const head of [headFor('stream', film, null), headFor('save', film, null), headFor('stream', { ...film, mime: '' }, null)]) {
      expect(head.headers['content-security-policy']).toMatch(/^sandbox( allow-downloads)?; default-src 'none'$/)
      expect(head.headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
    }
  })

  it('that saves tells the name in every script', () => {
    const { status, headers } = headFor('save', film, 'bytes=5-')
    expect(status).toBe(200)
    expect(headers['content-disposition']).toBe(
      `attachment; filename="Gru__e __ ___.webm"; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%E4%B8%96%E7%95%8C%20%22%F0%9F%94%A5%22.webm`,
    )
    // Whatever the name: a header takes it.
    expect(() => new Headers({ x: headers['content-disposition'] ?? '' })).not.toThrow()
    expect(() => new Headers({ x: headFor('save', { ...film, name: 'a\r\nb: c\ud800"\\%\u0000' }, null).headers['content-disposition'] ?? '' })).not.toThrow()
  })
})
