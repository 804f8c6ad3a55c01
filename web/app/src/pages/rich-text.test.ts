// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { markdownOf } from './rich-text.ts'

describe('pasted formatted text', () => {
  it('becomes Markdown', () => {
    expect(markdownOf('<h2>Tea</h2><p>At <b>five</b>, <i>sharp</i>: <a href="https://example.org/a b">here</a>.</p>')).toBe(
      '## Tea\n\nAt **five**, *sharp*: [here](https://example.org/a%20b).',
    )
    expect(markdownOf('<ul><li>cups<ul><li>blue</li></ul></li><li>milk</li></ul>')).toBe('- cups\n  - blue\n- milk')
    expect(markdownOf('<ol start="3"><li>a</li><li>b</li></ol>')).toBe('3. a\n4. b')
    expect(markdownOf('<blockquote><p>a</p><p>b</p></blockquote>')).toBe('> a\n>\n> b')
    expect(markdownOf('<pre>x = 1\ny = 2\n</pre>')).toBe('```\nx = 1\ny = 2\n```')
    expect(markdownOf('<table><tr><th>a</th><th>b</th></tr><tr><td>1|2</td></tr></table>')).toBe('| a | b |\n| --- | --- |\n| 1\\|2 |  |')
    expect(markdownOf('<p><b>a</b><br>b</p>')).toBe('**a**\nb')
  })

  it('is read as word processors write it', () => {
    const docs =
      '<b style="font-weight:normal"><p><span style="font-weight:700">Bold</span><span style="font-weight:400"> plain</span></p></b>'
    expect(markdownOf(docs)).toBe('**Bold** plain')
  })

  it('stays text when it has no formatting, and its signs stay signs', () => {
    expect(markdownOf('<div><span style="color: red">let a = b * c</span></div>')).toBeNull()
    expect(markdownOf('<p><b>2</b> * 3 [x] &lt;y&gt;</p>')).toBe('**2** \\* 3 \\[x\\] \\<y>')
  })

  it('stays a list and code when their signs are unusual', () => {
    for (const start of ['', 'x', '-2']) expect(markdownOf(`<ol start="${start}"><li>a</li></ol>`), start).toBe('1. a')
    expect(markdownOf('<pre>a\n```\nb</pre>')).toBe('````\na\n```\nb\n````')
  })

  it('is read although the fields of a form have the names of its members', () => {
    expect(markdownOf('<form id="f"><input name="childNodes"><input name="removeAttribute"><b>a</b></form>')).toBe('**a**')
  })

  it('brings no scripts and no addresses that run', () => {
    expect(markdownOf('<p><b>a</b><script>alert(1)</script><a href="javascript:alert(1)">b</a></p>')).toBe('**a**b')
  })
})
