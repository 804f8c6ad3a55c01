// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { parseMarkup } from './markup.ts'
import { showStill, stillDocument } from './still.ts'

const still = (html: string) => new DOMParser().parseFromString(stillDocument(parseMarkup(html)), 'text/html')

describe('HTML that can do nothing', () => {
  it.each([
    '<a href="https://x.example">x</a>',
    '<svg><a xlink:href="https://x.example"><text>x</text></a></svg>',
    '<svg><a href="https://x.example"><text>x</text></a></svg>',
    '<map><area href="https://x.example"></map>',
  ])('has links that lead nowhere: %s', (html) => {
    const link = still(html).querySelector('a, area')
    expect([link?.getAttribute('target'), link?.getAttribute('title')]).toEqual(['watchfire-no-window', 'https://x.example'])
  })

  it('keeps links to its own parts', () => {
    const page = still('<a href="#y">y</a><svg><a xlink:href="#y"></a><use href="#z"></use></svg>')
    const [own, drawn] = page.querySelectorAll('a')
    expect(own?.outerHTML).toBe('<a href="about:srcdoc#y">y</a>')
    expect(drawn?.outerHTML).toBe('<a xlink:href="about:srcdoc#y"></a>')
    expect(page.querySelector('use')?.getAttribute('href')).toBe('#z')
  })

  it.each([
    '<svg><a><animate attributeName="href" values="https://x.example"/></a></svg>',
    '<svg><a><set attributeName=" xlink:href" to="https://x.example"/></a></svg>',
    '<svg><a><set attributename="target" to="_self"/></a></svg>',
    '<math href="https://x.example"><mi>x</mi></math>',
    '<template shadowrootmode="open"><template shadowrootmode="open"><svg><set attributeName="href" to="https://x.example"/></svg></template></template>',
    '<link rel="preconnect" href="https://x.example">',
  ])('has no link that only a later moment makes one: %s', (html) => {
    expect(still(html).documentElement.outerHTML).not.toMatch(/x\.example|_self/)
  })

  it('has links that lead nowhere in a template, which may become a shadow tree', () => {
    const template = still('<p><template shadowrootmode="open"><a href="https://x.example">x</a></template>').querySelector('template')
    expect(template?.content.querySelector('a')?.getAttribute('target')).toBe('watchfire-no-window')
  })

  it('is not hidden behind the names of the fields of a form', () => {
    const fields = ['attributes', 'getAttribute', 'namespaceURI', 'localName', 'remove'].map((name) => `<input name="${name}">`)
    expect(still(`<form>${fields.join('')}<a href="https://x.example">x</a></form>`).querySelector('a')?.target).toBe('watchfire-no-window')
  })

  it('is in a frame of a document of ours, whose policy allows no address for that frame', () => {
    const frame = document.createElement('iframe')
    frame.title = 'Page'
    showStill(frame, '<!doctype html><p title="&quot;">x')
    const around = new DOMParser().parseFromString(frame.srcdoc, 'text/html')
    expect(around.querySelector('meta')?.content).toMatch(/^default-src 'none'; /)
    const inner = around.querySelector('iframe')
    expect([frame.getAttribute('sandbox'), inner?.getAttribute('sandbox'), inner?.title]).toEqual(['', '', 'Page'])
    expect(inner?.srcdoc).toContain('<!doctype html><html><meta http-equiv="Content-Security-Policy"')
    expect(inner?.srcdoc).toContain('<p title="&quot;">x')
  })
})
