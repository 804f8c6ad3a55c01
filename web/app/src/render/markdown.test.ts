// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { buildMarkdown, findHeading } from './markdown.ts'
import { PagePictures } from './page-pictures.ts'

async function built(text: string): Promise<HTMLElement> {
  const holder = document.createElement('div')
  const files = [{ path: 'recipe.md', size: 1, blob: () => Promise.resolve(new Blob()) }]
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
    expect(findHeading(text, '#what-to-bring')?.tagName).toBe('H2')
    expect(findHeading(text, '#%C3%BCn%C3%AFts--more')?.tagName).toBe('H3')
    expect(findHeading(text, '#nowhere')).toBeNull()
  })
})
