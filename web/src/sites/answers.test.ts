// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest'
import { SiteFolder } from './folder.ts'
import { frameDocument } from './frame.ts'
import { mediaType } from './media-type.ts'
import { readTold } from './message.ts'
import { policyOf } from './policy.ts'
import { rangeOf } from './range.ts'
import { Teller } from './teller.ts'
import { absentWords, folderWords, LISTED_MAX } from './words.ts'

describe('the policy of a site', () => {
  const origin = 'http://bafy.localhost:4000'
  const app = 'http://localhost:4000'
  const rule = (policy: string, name: string) => policy.split('; ').find((part) => part.startsWith(`${name} `))

  it('names no origin but its own and, to be shown by, the app', () => {
    for (const scripts of [true, false]) {
      const policy = policyOf({ scripts, origin, app })
      expect([...new Set(policy.match(/\w+:\/\/[^ ;]+/g))].sort()).toEqual([origin, app])
      expect(policy).not.toContain("'self'")
      expect(policy).not.toContain('*')
      expect(rule(policy, 'frame-ancestors')).toBe(`frame-ancestors ${origin} ${app}`)
    }
  })

  it('lets scripts run only when the reader does', () => {
    const still = policyOf({ scripts: false, origin, app })
    expect(rule(still, 'script-src')).toBe("script-src 'none'")
    expect(rule(still, 'sandbox')).toBe('sandbox allow-same-origin')
    expect(rule(policyOf({ scripts: true, origin, app }), 'worker-src')).toBe('worker-src blob:')
  })

  it('takes no more than an origin for the app', () => {
    for (const bad of ['*', "'none'; script-src *", 'http://a b', 'http://a.example/;', '']) {
      expect(rule(policyOf({ scripts: false, origin, app: bad }), 'frame-ancestors')).toBe(`frame-ancestors ${origin}`)
    }
  })

  it('of the document around it lets in that site alone', () => {
    expect(frameDocument(origin)).toContain(`content="default-src 'none'; style-src 'unsafe-inline'; frame-src ${origin}"`)
  })
})

describe('a range of a file', () => {
  it.each([
    [null, 10, null],
    ['bytes=0-', 10, { from: 0, to: 10 }],
    ['bytes=2-5', 10, { from: 2, to: 6 }],
    ['bytes=2-99', 10, { from: 2, to: 10 }],
    ['bytes=-3', 10, { from: 7, to: 10 }],
    ['bytes=-30', 10, { from: 0, to: 10 }],
    ['bytes=10-', 10, 'beyond'],
    ['bytes=0-', 0, 'beyond'],
    ['bytes=-0', 10, 'beyond'],
    ['bytes=5-2', 10, null],
    ['bytes=0-1,4-5', 10, null],
    ['bytes=-', 10, null],
    ['lines=1-2', 10, null],
  ])('%s of %d bytes is %j', (header, size, range) => {
    expect(rangeOf(header, size)).toEqual(range)
  })
})

describe('what a site says', () => {
  it('is read for what it is', () => {
    expect(readTold({ kind: 'ready', more: 1 })).toEqual({ kind: 'ready' })
    expect(readTold({ kind: 'at', address: '/a' })).toEqual({ kind: 'at', address: '/a' })
    expect(readTold({ kind: 'failed', reason: 7 })).toEqual({ kind: 'failed', reason: '' })
  })

  it.each([null, 'ready', 7, {}, { kind: 'show' }, { kind: 'read' }, { kind: 'read', address: 'a' }, { kind: 'at', address: 7 },
    { kind: 'outside', address: 'x'.repeat(9000) }, { kind: 'read', address: `/${'x'.repeat(9000)}` }, []])('is passed over: %j', (message) => {
    expect(readTold(message)).toBeNull()
  })
})

describe('words of ours on a site', () => {
  it('show names as names', () => {
    const bad = '<img src=x onerror=alert(1)>"\'&'
    for (const html of [absentWords(bad), folderWords(bad, [bad, `${bad}/`])]) {
      const page = new DOMParser().parseFromString(html, 'text/html')
      expect(page.querySelectorAll('img, script, [onerror]')).toHaveLength(0)
      expect(page.body.textContent).toContain(bad)
    }
  })

  it('list no more than a bounded part of a large folder', () => {
    const html = folderWords('', Array.from({ length: 100_000 }, (_, i) => `${i}`))
    expect(html.match(/<li>/g)).toHaveLength(LISTED_MAX)
    expect(html).toContain('and 99,500 more')
  })
})

describe('the type of a file', () => {
  const text = new TextEncoder().encode('words')
  it.each([
    ['a.css', 'text/css; charset=utf-8'], ['a.MJS', 'text/javascript; charset=utf-8'], ['a.woff2', 'font/woff2'],
    ['a.svg', 'image/svg+xml'], ['a.md', 'text/plain; charset=utf-8'], ['LICENSE', 'text/plain; charset=utf-8'],
    ['a.constructor', 'text/plain; charset=utf-8'], ['a.mp4', 'video/mp4'],
  ])('%s is %s', (path, type) => expect(mediaType(path, text)).toBe(type))

  it('of unknown bytes is none', () => {
    expect(mediaType('a.bin', Uint8Array.of(0, 1, 2))).toBe('application/octet-stream')
  })
})

describe('the tab', () => {
  const file = (path: string, blob: () => Promise<Blob>) => ({ path, size: 1, blob })

  it('answers with what the reader allows at that time', async () => {
    const teller = new Teller(new SiteFolder([file('index.html', async () => new Blob(['<p>']))]), 'http://app')
    expect(await teller.answer('/')).toMatchObject({ kind: 'file', status: 200, scripts: false, app: 'http://app' })
    teller.scripts = true
    expect(await teller.answer('/')).toMatchObject({ scripts: true, type: 'text/html; charset=utf-8' })
    expect(await teller.answer('/gone')).toMatchObject({ kind: 'file', status: 404 })
  })

  it('says why a file cannot be read', async () => {
    const gone = file('a', async () => Promise.reject(new Error('It is gone.')))
    expect(await new Teller(new SiteFolder([gone]), '').answer('/a')).toEqual({ kind: 'failed', reason: 'It is gone.' })
  })

  it('lets a site ask for only so much at once', async () => {
    let open: (blob: Blob) => void = () => {}
    const blob = new Promise<Blob>((resolve) => (open = resolve))
    const teller = new Teller(new SiteFolder([file('a', () => blob)]), '')
    const answers = Array.from({ length: 1100 }, () => teller.answer('/a'))
    open(new Blob(['x']))
    const kinds = (await Promise.all(answers)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'failed')).toHaveLength(1100 - 1016)
    expect(await teller.answer('/a')).toMatchObject({ kind: 'file' })
  })
})
