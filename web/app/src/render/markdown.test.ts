// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { buildMarkdown, findPart } from './markdown.ts'
import { PagePictures } from './page-pictures.ts'

async function built(text: string): Promise<HTMLElement> {
  const holder = document.createElement('div')
  const files = ['recipe.md', 'docs/a.txt', 'docs/README.md', 'pictures/b.png'].map((path) => ({
    path,
    size: 1,
    blob: () => Promise.resolve(new Blob()),
  }))
  holder.append(await buildMarkdown(text, 'index.md', files, new PagePictures()))
  return holder
}

describe('Markdown', () => {
  it('is rendered as HTML', async () => {
    expect((await built('# Tea\n\nat *five*')).innerHTML).toBe('<h1>Tea</h1>\n<p>at <em>five</em></p>\n')
  })

  it('links to the files beside it', async () => {
    const link = (await built('[how](recipe.md)')).querySelector('a')
    expect(link?.getAttribute('href')).toBe('#file=recipe.md')
  })

  it('links to a part of a file, and to a folder', async () => {
    const addressOf = async (reference: string) => (await built(`[x](${reference})`)).querySelector('a')?.getAttribute('href')
    expect(await addressOf('recipe.md#step%202')).toBe('#file=recipe.md&part=step%202')
    expect(await addressOf('index.md#top')).toBeNull()
    expect(await addressOf('docs/')).toBe('#file=docs%2FREADME.md')
    expect(await addressOf('./pictures')).toBe('#file=pictures%2Fb.png')
    expect(await addressOf('nowhere/')).toBeNull()
  })

  it('shows front matter as a table, and a line above a heading as a line', async () => {
    const front = (await built('---\ntitle: "A & <b>"\ntags:\n  - x\n  - y\n---\n# Tea')).innerHTML
    expect(front).toBe(
      '<table><thead><tr><th>title</th><th>tags</th></tr></thead><tbody><tr><td>A &amp; &lt;b&gt;</td><td>- x - y</td></tr></tbody></table>\n<h1>Tea</h1>\n',
    )
    expect((await built('---\nTea\n---')).innerHTML).toBe('<hr>\n<h2>Tea</h2>\n')
  })

  it('may contain HTML, which is sanitised', async () => {
    expect((await built('a <b onclick=x()>b</b><script>x()</script>')).innerHTML).toBe('<p>a <b>b</b></p>\n')
  })

  it('highlights code that names its language, and keeps every character', async () => {
    const code = '\n  fn main() { "<b>&amp;" }\n'
    const fence = (await built(`\`\`\`rust\n${code}\`\`\``)).querySelector('pre > code')
    expect(fence?.textContent).toBe(code)
    expect(fence?.querySelector('.hljs-keyword')?.textContent).toBe('fn')
  })

  it('leaves code in unknown languages plain', async () => {
    const fence = (await built('```constructor\n<b>\n```')).querySelector('pre > code')
    expect(fence?.innerHTML).toBe('&lt;b&gt;\n')
  })
})

describe('a link within a text', () => {
  it('leads to the heading with that slug', async () => {
    const text = await built('## What to bring?\n\n### Ünïts & more')
    expect(findPart(text, '#what-to-bring')?.tagName).toBe('H2')
    expect(findPart(text, '#%C3%BCn%C3%AFts--more')?.tagName).toBe('H3')
    expect(findPart(text, '#nowhere')).toBeNull()
  })

  it('leads to the second heading with the same words, and to an anchor', async () => {
    const text = await built('# Setup\n\n## Setup\n\n<a id="here"></a>\n\n<h3 name="there">x</h3>')
    expect(findPart(text, '#setup')?.tagName).toBe('H1')
    expect(findPart(text, '#setup-1')?.tagName).toBe('H2')
    expect(findPart(text, '#here')?.tagName).toBe('A')
    expect(findPart(text, '#there')?.tagName).toBe('H3')
  })
})
