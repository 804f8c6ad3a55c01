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

  it('keeps the signs that begin a block, entities and code as they are', () => {
    const signs =
      '<b>Notes</b><p># x</p><div><h2>Tea</h2></div><p>a<br>- b</p><ul><li>2024. A good year</li></ul><blockquote>+ c</blockquote>'
    expect(markdownOf(signs)).toBe('**Notes**\n\n\\# x\n\n## Tea\n\na\n\\- b\n\n- 2024\\. A good year\n\n> \\+ c')
    expect(markdownOf('<p><b>2024. A</b> good # year, 3. x</p>')).toBe('**2024. A** good # year, 3. x')
    expect(markdownOf('<p>2024. A <b>good</b> year</p>')).toBe('2024\\. A **good** year')
    expect(markdownOf('<p><i>a</i> &amp;copy; &amp; b ~~c~~</p>')).toBe('*a* \\&copy; & b \\~~c\\~~')
    expect(markdownOf('<p><code>a`b</code> <code>`</code> <code>``` `</code></p>')).toBe('``a`b`` `` ` `` `` ``` ` ``')
    expect(markdownOf('<p><b>10<sup>8</sup></b>, H<sub>2</sub>O, 1<sup>st</sup></p>')).toBe('**10⁸**, H₂O, 1<sup>st</sup>')
  })

  it('stays text when an editor of code has copied it', () => {
    const editor =
      "<meta charset='utf-8'><div style=\"color: #d4d4d4;font-family: Menlo, Monaco, 'Courier New', monospace;font-weight: normal;white-space: pre;\">" +
      '<div><span style="color: #569cd6;font-weight: bold;"># if</span>  a:</div></div>'
    expect(markdownOf(editor)).toBeNull()
    expect(markdownOf('<pre style="font-family:\'JetBrains Mono\',monospace"><b>let</b> a</pre>')).toBeNull()
  })

  it('brings no scripts and no addresses that run', () => {
    expect(markdownOf('<p><b>a</b><script>alert(1)</script><a href="javascript:alert(1)">b</a></p>')).toBe('**a**b')
  })
})
