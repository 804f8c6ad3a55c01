// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { INLINED_BYTES_MAX, mayHaveScripts, runningDocument, stillDocument } from './document.ts'

// jsdom's Blob cannot be read; these parts of it are all that is asked for.
const file = (path: string, text: string, size = text.length) => ({
  path,
  size,
  blob: () => Promise.resolve({
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
  ])('has our policy before anything of its own: %s', async (html) => {
    const still = await stillDocument(html, '', [])
    const [first] = parsed(still.html).head.children
    expect(first?.getAttribute('http-equiv')).toBe('Content-Security-Policy')
    expect(first?.getAttribute('content')).toContain("default-src 'none'")
    expect(still.html.match(/<meta/g)?.length).toBe((html.match(/<meta/g)?.length ?? 0) + 1)
  })

  it('keeps the mode it is laid out in', async () => {
    expect(parsed((await stillDocument('<!DOCTYPE html><p>', '', [])).html).doctype).not.toBeNull()
    expect(parsed((await stillDocument('<p>', '', [])).html).doctype).toBeNull()
  })

  it('tells where its links lead instead of going there', async () => {
    const { html } = await stillDocument('<a href="https://x.example">x</a><a href="#y">y</a>', '', [])
    const [out, inside] = parsed(html).querySelectorAll('a')
    expect(out?.target).toBe('_blank')
    expect(out?.title).toBe('https://x.example')
    expect(inside?.target).toBe('')
    expect(inside?.getAttribute('href')).toBe('about:srcdoc#y')
  })

  it('hints at no connection', async () => {
    const { html } = await stillDocument(
      '<link rel=preconnect href="https://x.example"><link rel=dns-prefetch href="//x.example"><p>y', '', [])
    expect(html).not.toContain('x.example')
  })

  it('has the pictures and styles of its directory inside', async () => {
    const files = [file('site/cat.png', 'png'), file('site/style.css', 'p{}</style>')]
    const { html, leftOut } = await stillDocument(
      '<link rel=stylesheet href=style.css><img src=cat.png srcset="cat.png 2x"><img src=gone.png>',
      'site/index.html', files)
    const page = parsed(html)
    expect(page.querySelector('img')?.outerHTML).toBe('<img src="data:image/png;base64,cG5n">')
    expect(page.querySelector('style')?.textContent).toBe('p{}<\\/style>')
    expect(leftOut).toBe(0)
  })

  it('leaves out what is too large, and counts it', async () => {
    const files = [file('film.mp4', '', INLINED_BYTES_MAX + 1), file('cat.png', 'png')]
    const { html, leftOut } = await stillDocument('<video src=film.mp4></video><img src=cat.png>', 'i.html', files)
    expect(leftOut).toBe(1)
    expect(html).toContain('src="film.mp4"')
    expect(html).toContain('data:image/png')
  })
})

describe('HTML with its scripts', () => {
  it('alone is handed over as it is', async () => {
    const html = '<script>1</script><p>'
    expect((await runningDocument(html, '', [])).html).toBe(html)
  })

  it('has the scripts of its directory inside', async () => {
    const files = [file('index.html', ''), file('a.js', 'x("</script>")')]
    const { html } = await runningDocument('<script src="a.js"></script>', 'index.html', files)
    expect(parsed(html).querySelector('script')?.outerHTML).toBe('<script>x("<\\/script>")</script>')
  })
})

describe('whether there is something to run', () => {
  it('is asked of scripts, handlers and addresses', () => {
    expect(mayHaveScripts('<SCRIPT>')).toBe(true)
    expect(mayHaveScripts('<p onclick = x>')).toBe(true)
    expect(mayHaveScripts('<a href="javascript:x">')).toBe(true)
    expect(mayHaveScripts('<p>on the table</p>')).toBe(false)
  })
})
