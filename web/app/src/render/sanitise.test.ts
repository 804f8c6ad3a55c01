// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import type { References } from './sanitise.ts'
import { sanitise } from './sanitise.ts'

const alone: References = { picture: () => null, file: () => null }

function built(markup: string, references = alone): HTMLElement {
  const holder = document.createElement('div')
  holder.append(sanitise(markup, references))
  return holder
}

describe('harmless markup', () => {
  it('is unchanged', () => {
    const markup =
      '<h2>Tea</h2><p>a <em>b</em> <code class="language-rust">fn</code></p><hr>' +
      '<ol start="3"><li>c</li></ol><table><tbody><tr><td align="right">1</td></tr></tbody></table>'
    expect(built(markup).innerHTML).toBe(markup)
  })

  it('keeps the checkboxes of a task list, read-only', () => {
    const list = built('<li><input type="checkbox" checked onclick="x()"> a<li><input type="checkbox"> b')
    const boxes = [...list.querySelectorAll('[role=img]')]
    expect(boxes.map((box) => box.getAttribute('aria-label'))).toEqual(['Done:', 'To do:'])
    expect(list.querySelector('input')).toBeNull()
  })

  it('is kept beside names that hide members of the document, in some browsers, and of a form', () => {
    const names = '<img name="body"><img name="createElement"><form id="a"><input name="childNodes"><input name="removeAttribute">'
    expect(built(`${names}<p>shown</p></form>`).textContent).toContain('shown')
  })

  it('keeps the text of unknown elements', () => {
    expect(built('<center>a <blink>b</blink></center>').textContent).toBe('a b')
  })
})

describe('a link', () => {
  const link = (markup: string, references = alone) => built(markup, references).querySelector('a')

  it('to another site opens in a new tab without a referrer', () => {
    const to = link('<a href="https://example.org/x" target="_self" rel="opener">x</a>')
    expect(to?.getAttribute('href')).toBe('https://example.org/x')
    expect(to?.rel).toBe('noopener noreferrer nofollow')
    expect(to?.target).toBe('_blank')
  })

  it('to a file of the page opens that file', () => {
    const file = (reference: string) => (reference === 'b.md' ? '#file=b.md' : null)
    expect(link('<a href="b.md">b</a>', { ...alone, file })?.getAttribute('href')).toBe('#file=b.md')
    expect(link('<a href="c.md">c</a>', { ...alone, file })?.hasAttribute('href')).toBe(false)
  })

  it('without a scheme uses https', () => {
    expect(link('<a href="//example.org">x</a>')?.href).toBe('https://example.org/')
  })
})

describe('a picture', () => {
  it('of the page is shown', () => {
    const picture = (name: string) => (name === 'cat.png' ? 'blob:http://x/1' : null)
    const image = built('<img src="cat.png" alt="a cat" onerror="x()">', { ...alone, picture })
    expect(image.innerHTML).toBe('<img alt="a cat" src="blob:http://x/1">')
  })

  it('of another site becomes a link to it', () => {
    const holder = built('<img src="https://example.org/track.gif?me" alt="dot">')
    expect(holder.querySelector('img')).toBeNull()
    expect(holder.querySelector('a')?.textContent).toBe('Picture on example.org: dot')
  })

  it('without a source is replaced by a note', () => {
    expect(built('<img src="gone.png" alt="a cat">').textContent).toBe('Picture not on this page: a cat')
  })

  it('inline is shown, and other data is not', () => {
    expect(built('<img src="data:image/png;base64,AAAA">').querySelector('img')).not.toBeNull()
    expect(built('<img src="data:text/html,<script>x()</script>">').querySelector('img')).toBeNull()
  })
})

describe('hostile markup', () => {
  const corpus = [
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '<img src="javascript:alert(1)">',
    '<svg onload=alert(1)><script>alert(1)</script></svg>',
    '<svg><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>',
    '<svg><use href="data:image/svg+xml,<svg id=x onload=alert(1)>#x"/></svg>',
    '<math><mi xlink:href="data:x,<script>alert(1)</script>">',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
    '<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">',
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    '<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>',
    '<a href="javascript:alert(1)">x</a>',
    '<a href="JaVaScRiPt:alert(1)">x</a>',
    '<a href=" \u0001javascript:alert(1)">x</a>',
    '<a href="java\tscr\nipt:alert(1)">x</a>',
    '<a href="&#106;avascript&colon;alert(1)">x</a>',
    '<a href="vbscript:msgbox(1)">x</a>',
    '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    '<a href="blob:http://localhost/1">x</a>',
    '<a href="file:///etc/passwd">x</a>',
    '<iframe srcdoc="<script>parent.alert(1)</script>"></iframe>',
    '<iframe src="javascript:alert(1)"></iframe>',
    '<object data="javascript:alert(1)"></object><embed src="javascript:alert(1)">',
    '<form action="javascript:alert(1)"><button>x</button></form>',
    '<button formaction="javascript:alert(1)">x</button>',
    '<input autofocus onfocus=alert(1)>',
    '<input type="image" src="https://evil.example/x">',
    '<details open ontoggle=alert(1)>x</details>',
    '<body onload=alert(1)><p onclick=alert(1)>x</p>',
    '<video src=x onerror=alert(1)><source onerror=alert(1)></video><audio src onerror=alert(1)>',
    '<base href="https://evil.example/"><a href="/x">x</a>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<link rel="stylesheet" href="https://evil.example/x.css">',
    '<link rel="dns-prefetch" href="//evil.example">',
    '<style>@import "https://evil.example/x.css"</style>',
    '<p style="background:url(https://evil.example/x)">x</p>',
    '<table background="https://evil.example/x"><tr><td background="https://evil.example/x">x</table>',
    '<div id="app" name="documentElement" class="dialog">x</div>',
    '<a id="location" name="location" href="cid:x">x</a>',
    '<template><script>alert(1)</script></template>',
    '<template shadowrootmode="open"><img src=x onerror=alert(1)></template>',
    '<xmp><script>alert(1)</script></xmp><plaintext><script>alert(1)</script>',
    '<textarea><script>alert(1)</script></textarea><title><img src=x onerror=alert(1)></title>',
    '<custom-element onclick=alert(1) is="x-y">x</custom-element>',
    '<img srcset="https://evil.example/x 1x" src="y">',
    '<a ping="https://evil.example/x" href="https://good.example">x</a>',
    '<p popover id=x onbeforetoggle=alert(1)>x</p>',
    '<marquee onstart=alert(1)>x</marquee>',
    '<select><option><img src=x onerror=alert(1)></option></select>',
    '<dialog open><form method=dialog>x</form></dialog>',
    '<!--><img src=x onerror=alert(1)>-->',
    '<![CDATA[<img src=x onerror=alert(1)>]]>',
    '<?xml-stylesheet href="javascript:alert(1)"?>',
    '<span class="hljs-x hljs-y" onclick=alert(1) style=x>x</span>',
    '<span class="app-header">x</span>',
  ]

  const ATTRIBUTES = new Set([
    'align',
    'alt',
    'aria-label',
    'class',
    'colspan',
    'data-anchor',
    'datetime',
    'dir',
    'height',
    'href',
    'lang',
    'open',
    'rel',
    'reversed',
    'role',
    'rowspan',
    'scope',
    'span',
    'src',
    'start',
    'tabindex',
    'target',
    'title',
    'value',
    'width',
  ])
  const DANGEROUS =
    'script,style,iframe,object,embed,svg,math,form,button,base,meta,link,template,' +
    'textarea,select,dialog,video,audio,input,[style],[id],[name],[is],[popover]'

  it.each(corpus)('loses everything that runs, loads or imitates the app: %s', (markup) => {
    for (const wrapped of [markup, `<p>${markup}`, `<table><tr><td>${markup}`, `<ul><li>${markup}`]) {
      const holder = built(wrapped)
      expect(holder.querySelector(DANGEROUS)).toBeNull()
      for (const element of holder.querySelectorAll('*')) {
        for (const { name, value } of element.attributes) {
          expect(ATTRIBUTES.has(name), `${name}=${value}`).toBe(true)
          if (name === 'href') expect(value).toMatch(/^(?:https?:\/\/|mailto:|#)/)
          if (name === 'src') expect(value).toMatch(/^data:image\//)
          if (name === 'class') expect(value).toMatch(/^(?:missing-picture|task(?: done)?|(?:hljs|language)-.*)$/)
        }
      }
    }
  })

  it('nested very deep loses its elements and keeps its text', () => {
    const holder = built(`${'<div>'.repeat(1_000)}deep`)
    expect(holder.textContent).toBe('deep')
    expect(holder.querySelectorAll('div').length).toBeLessThanOrEqual(100)
  })
})
