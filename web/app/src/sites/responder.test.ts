// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest'
import { SiteFolder } from './folder.ts'
import { frameDocument } from './frame.ts'
import { contentType } from './media-type.ts'
import { parseShellMessage } from './protocol.ts'
import { policyOf } from './policy.ts'
import { SiteResponder } from './responder.ts'
import { notFoundDocument, folderListDocument, LISTED_MAX } from './documents.ts'

describe('the policy of a site', () => {
  const origin = 'http://bafy.localhost:4000'
  const app = 'http://localhost:4000'
  const rule = (policy: string, name: string) => policy.split('; ').find((part) => part.startsWith(`${name} `))

  it('names only its own origin and, as frame ancestor, the app', () => {
    for (const scripts of [true, false]) {
      const policy = policyOf({ scripts, origin, app })
      expect([...new Set(policy.match(/\w+:\/\/[^ ;]+/g))].sort()).toEqual([origin, app])
      expect(policy).not.toContain("'self'")
      expect(policy).not.toContain('*')
      expect(rule(policy, 'frame-ancestors')).toBe(`frame-ancestors ${origin} ${app}`)
    }
  })

  it('allows scripts only when the reader does', () => {
    const still = policyOf({ scripts: false, origin, app })
    expect(rule(still, 'script-src')).toBe("script-src 'none'")
    expect(rule(still, 'sandbox')).toBe('sandbox allow-same-origin')
    expect(rule(policyOf({ scripts: true, origin, app }), 'worker-src')).toBe('worker-src blob:')
  })

  it('accepts only an origin for the app', () => {
    for (const bad of ['*', "'none'; script-src *", 'http://a b', 'http://a.example/;', '']) {
      expect(rule(policyOf({ scripts: false, origin, app: bad }), 'frame-ancestors')).toBe(`frame-ancestors ${origin}`)
    }
  })

  it('of the document around it allows only that site in a frame', () => {
    expect(frameDocument(origin)).toContain(`content="default-src 'none'; style-src 'unsafe-inline'; frame-src ${origin}"`)
  })
})

describe('a message from a site', () => {
  it('is parsed by its kind', () => {
    expect(parseShellMessage({ kind: 'ready', more: 1 })).toEqual({ kind: 'ready' })
    expect(parseShellMessage({ kind: 'location', path: '/a' })).toEqual({ kind: 'location', path: '/a' })
    expect(parseShellMessage({ kind: 'read', path: '/a', range: 'bytes=1-2' })).toEqual({ kind: 'read', path: '/a', range: 'bytes=1-2' })
    for (const range of [undefined, 7, 'x'.repeat(101)]) {
      expect(parseShellMessage({ kind: 'read', path: '/a', range })).toEqual({ kind: 'read', path: '/a', range: null })
    }
    expect(parseShellMessage({ kind: 'failed', reason: 7 })).toEqual({ kind: 'failed', reason: '' })
  })

  it.each([
    null,
    'ready',
    7,
    {},
    { kind: 'show' },
    { kind: 'read' },
    { kind: 'read', path: 'a' },
    { kind: 'location', path: 7 },
    { kind: 'outside', url: 'x'.repeat(9000) },
    { kind: 'read', path: `/${'x'.repeat(9000)}` },
    [],
  ])('is ignored: %j', (message) => {
    expect(parseShellMessage(message)).toBeNull()
  })
})

describe('a generated document of a site', () => {
  it('escapes file names', () => {
    const bad = '<img src=x onerror=alert(1)>"\'&'
    for (const html of [notFoundDocument(bad), folderListDocument(bad, [bad, `${bad}/`])]) {
      const page = new DOMParser().parseFromString(html, 'text/html')
      expect(page.querySelectorAll('img, script, [onerror]')).toHaveLength(0)
      expect(page.body.textContent).toContain(bad)
    }
  })

  it('lists a bounded number of names of a large folder', () => {
    const html = folderListDocument(
      '',
      Array.from({ length: 100_000 }, (_, i) => `${i}`),
    )
    expect(html.match(/<li>/g)).toHaveLength(LISTED_MAX)
    expect(html).toContain('and 99,500 more')
  })
})

describe('the type of a file', () => {
  const text = new Blob(['words'])
  it.each([
    ['a.css', 'text/css'],
    ['a.MJS', 'text/javascript'],
    ['a.html', 'text/html; charset=utf-8'],
    ['a.woff2', 'font/woff2'],
    ['a.svg', 'image/svg+xml'],
    ['a.md', 'text/plain; charset=utf-8'],
    ['LICENSE', 'text/plain; charset=utf-8'],
    ['a.constructor', 'text/plain; charset=utf-8'],
    ['a.mp4', 'video/mp4'],
  ])('%s is %s', (path, type) => expect(contentType(path, text)).resolves.toBe(type))

  it('of unknown bytes is application/octet-stream', () => {
    return expect(contentType('a.bin', new Blob([Uint8Array.of(0, 1, 2)]))).resolves.toBe('application/octet-stream')
  })
})

describe('the encoding of a file', () => {
  const type = (path: string, ...bytes: (string | number)[]) =>
    contentType(path, new Blob(bytes.map((part) => (typeof part === 'string' ? part : Uint8Array.of(part)))))

  it('is left to a document that declares it, as with a plain server', async () => {
    expect(await type('a.html', '<meta charset="windows-1252">', 0xfc)).toBe('text/html')
    expect(await type('a.html', '<meta charset="windows-1252">')).toBe('text/html')
    expect(await type('a.htm', '<meta http-equiv=content-type content="text/html; charset=Shift_JIS">')).toBe('text/html')
    expect(await type('a.html', 0xff, 0xfe, '<', 0)).toBe('text/html')
  })

  it('is UTF-8 for other text that is UTF-8', async () => {
    expect(await type('a.html', '<p>ü')).toBe('text/html; charset=utf-8')
    expect(await type('a.txt', 'ü')).toBe('text/plain; charset=utf-8')
    expect(await type('a.csv', 'ü')).toBe('text/csv; charset=utf-8')
  })

  it('is unknown for the rest, so the browser guesses', async () => {
    expect(await type('a.html', '<p>', 0xfc, '.')).toBe('text/html')
    expect(await type('a.txt', 0xfc, '.')).toBe('text/plain')
    expect(await type('a.txt', 'x'.repeat(100_000), 0xfc, '.')).toBe('text/plain')
  })

  it('is that of the document for style sheets and scripts', async () => {
    expect(await type('a.css', 'ü')).toBe('text/css')
    expect(await type('a.js', 0xfc)).toBe('text/javascript')
  })
})

describe('the responder', () => {
  const file = (path: string, blob: () => Promise<Blob>) => ({ path, size: 1, blob })

  it('replies with the scripts setting of that moment', async () => {
    const responder = new SiteResponder(new SiteFolder([file('index.html', async () => new Blob(['<p>']))]), 'http://app')
    expect(await responder.read('/')).toMatchObject({ kind: 'file', status: 200, scripts: false, app: 'http://app' })
    responder.scripts = true
    expect(await responder.read('/')).toMatchObject({ scripts: true, type: 'text/html; charset=utf-8' })
    expect(await responder.read('/gone')).toMatchObject({ kind: 'file', status: 404 })
  })

  it('replies with the part of a file that the request asks for, and with its size', async () => {
    const responder = new SiteResponder(new SiteFolder([file('a.txt', async () => new Blob(['abc', 'def']))]), '')
    const read = async (path: string, range: string | null) => {
      const reply = await responder.read(path, range)
      if (reply.kind !== 'file') throw new Error(reply.reason)
      return { part: reply.part, size: reply.size, words: await reply.blob.text() }
    }
    expect(await read('/a.txt', 'bytes=2-3')).toEqual({ part: { from: 2, to: 4 }, size: 6, words: 'cd' })
    expect(await read('/a.txt', 'bytes=4-')).toEqual({ part: { from: 4, to: 6 }, size: 6, words: 'ef' })
    expect(await read('/a.txt', 'bytes=6-')).toEqual({ part: 'unsatisfiable', size: 6, words: '' })
    expect(await read('/a.txt', null)).toEqual({ part: null, size: 6, words: 'abcdef' })
    expect(await read('/gone', 'bytes=2-3')).toMatchObject({ part: null, words: expect.stringContaining('gone') })
  })

  it('replies with the reason when a file cannot be read', async () => {
    const gone = file('a', async () => Promise.reject(new Error('It is gone.')))
    expect(await new SiteResponder(new SiteFolder([gone]), '').read('/a')).toEqual({ kind: 'failed', reason: 'It is gone.' })
  })

  it('bounds the requests that a site has open at once', async () => {
    let open: (blob: Blob) => void = () => {}
    const blob = new Promise<Blob>((resolve) => (open = resolve))
    const responder = new SiteResponder(new SiteFolder([file('a', () => blob)]), '')
    const replies = Array.from({ length: 1100 }, () => responder.read('/a'))
    open(new Blob(['x']))
    const kinds = (await Promise.all(replies)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'failed')).toHaveLength(1100 - 1016)
    expect(await responder.read('/a')).toMatchObject({ kind: 'file' })
  })
})
