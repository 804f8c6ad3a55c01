// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import type { OpenFile } from '../ui/site.ts'
import { INLINED_BYTES_MAX, mayHaveScripts, scriptedDocument, staticDocument } from './document.ts'

// jsdom's Blob cannot be read. The tests use only these methods.
const file = (path: string, text: string, size = text.length) => ({
  path,
  size,
  blob: () =>
    Promise.resolve({
      text: () => Promise.resolve(text),
      arrayBuffer: () => Promise.resolve(new TextEncoder().encode(text).buffer),
    } as Blob),
})
const parsed = (html: string) => new DOMParser().parseFromString(html, 'text/html')

describe('HTML without its scripts', () => {
  it.each([
    '<!doctype html><html><head><title>x</title></head><body>y</body></html>',
    '<p>no head at all',
    '<!-- first --><meta http-equiv="Content-Security-Policy" content="default-src *">',
    '<html manifest="&quot;><head><script>" lang=\'"><x\'>',
    '<frameset><frame src="https://evil.example"></frameset>',
    // These names hide members of the document, in some browsers.
    '<img name="head"><img name="documentElement"><img name="createElement"><img name="querySelectorAll">',
  ])('has our policy before its own content: %s', async (html) => {
    const still = await staticDocument(html, '', [])
    const [first] = parsed(still.html).head.children
    expect(first?.getAttribute('http-equiv')).toBe('Content-Security-Policy')
    expect(first?.getAttribute('content')).toContain("default-src 'none'")
    expect(still.html.match(/<meta/g)?.length).toBe((html.match(/<meta/g)?.length ?? 0) + 2)
    const [, second] = parsed(still.html).head.children
    expect(second?.outerHTML).toBe('<meta http-equiv="x-dns-prefetch-control" content="off">')
  })

  it('keeps its document mode', async () => {
    expect(parsed((await staticDocument('<!DOCTYPE html><p>', '', [])).html).doctype).not.toBeNull()
    expect(parsed((await staticDocument('<p>', '', [])).html).doctype).toBeNull()
  })

  it('shows where its links lead instead of following them', async () => {
    const { html } = await staticDocument('<a href="https://x.example">x</a><a href="#y">y</a>', '', [])
    const [out, inside] = parsed(html).querySelectorAll('a')
    expect(out?.target).toBe('watchfire-no-window')
    expect(out?.title).toBe('https://x.example')
    expect(inside?.target).toBe('')
    expect(inside?.getAttribute('href')).toBe('about:srcdoc#y')
  })

  it('has no connection hints', async () => {
    const { html } = await staticDocument(
      '<link rel=preconnect href="https://x.example"><link rel=dns-prefetch href="//x.example"><p>y',
      '',
      [],
    )
    expect(html).not.toContain('x.example')
  })

  it('inlines the pictures and styles of its directory', async () => {
    const files = [file('site/cat.png', 'png'), file('site/style.css', 'p{}</style>')]
    const { html, leftOut } = await staticDocument(
      '<link rel=stylesheet href=style.css><img src=cat.png srcset="cat.png 2x"><img src=gone.png>',
      'site/index.html',
      files,
    )
    const page = parsed(html)
    expect(page.querySelector('img')?.outerHTML).toBe('<img src="data:image/png;base64,cG5n">')
    expect(page.querySelector('style')?.textContent).toBe('p{}<\\/style>')
    expect(leftOut).toBe(0)
  })

  it('leaves out files that are too large, and counts them', async () => {
    const files = [file('film.mp4', '', INLINED_BYTES_MAX + 1), file('cat.png', 'png')]
    const { html, leftOut } = await staticDocument('<video src=film.mp4></video><img src=cat.png>', 'i.html', files)
    expect(leftOut).toBe(1)
    expect(html).toContain('src="film.mp4"')
    expect(html).toContain('data:image/png')
  })

  it('leaves out a large file whose folder states no size', async () => {
    const opened = { size: INLINED_BYTES_MAX + 1, close: () => undefined } as OpenFile
    const streamed = { cid: 'a page', isWhole: () => false, open: () => Promise.resolve(opened) }
    const film = { ...file('film.mp4', '', 0), isEstimate: true, streamed }
    const { html, leftOut } = await staticDocument('<video src=film.mp4></video>', 'i.html', [film])
    expect(leftOut).toBe(1)
    expect(html).toContain('src="film.mp4"')
  })
})

describe('HTML with its scripts', () => {
  it('alone is passed on unchanged', async () => {
    const html = '<script>1</script><p>'
    expect((await scriptedDocument(html, '', [])).html).toBe(html)
  })

  it('inlines the scripts of its directory', async () => {
    const files = [file('index.html', ''), file('a.js', 'x("</script>")')]
    const { html } = await scriptedDocument('<script src="a.js"></script>', 'index.html', files)
    expect(parsed(html).querySelector('script')?.outerHTML).toBe('<script>x("<\\/script>")</script>')
  })
})

describe('the check for scripts', () => {
  it('finds script elements, event handlers and URLs', () => {
    expect(mayHaveScripts('<SCRIPT>')).toBe(true)
    expect(mayHaveScripts('<p onclick = x>')).toBe(true)
    expect(mayHaveScripts('<a href="javascript:x">')).toBe(true)
    expect(mayHaveScripts('<p>on the table</p>')).toBe(false)
  })
})
