import { describe, expect, it } from 'vitest'
import { withLineBreaks } from './line-breaks.ts'

describe('the lines of a text', () => {
  it('stay lines where Markdown would join them', () => {
    expect(withLineBreaks('roses are red\nviolets are blue')).toBe('roses are red  \nviolets are blue')
    expect(withLineBreaks('> a\n> b')).toBe('> a  \n> b')
    expect(withLineBreaks('- a\n  b')).toBe('- a  \n  b')
    expect(withLineBreaks('```a``` b\nc\nd')).toBe('```a``` b  \nc  \nd')
    // Only a list that begins with 1 begins within a paragraph, and only a block of HTML.
    expect(withLineBreaks('It was\n2024. A good year')).toBe('It was  \n2024. A good year')
    expect(withLineBreaks('see\n<https://example.org>\n<b>or</b> not\n<i>\nso')).toBe(
      'see  \n<https://example.org>  \n<b>or</b> not  \n<i>  \nso',
    )
    expect(withLineBreaks('> a\nb')).toBe('> a  \nb')
  })

  it('are unchanged where Markdown keeps them apart', () => {
    for (const text of [
      'one\n\ntwo',
      '# Title\ntext',
      'Title\n===',
      '- a\n- b\n1. c',
      '| a | b |\n|---|---|\n| 1 | 2 |',
      '```\na\nb\n```',
      '~~~js\na\n```\nb\n~~~',
      '```md\n```js\na\nb\n```',
      '    a\n    b',
      '<p>\na\n</p>',
      'a\n<div>\nb\n</div>',
      '<custom-part>\na\nb',
      '> ```\n> a\n> b\n> ```',
      '> > ~~~\n> > a\n> > b',
      'a\n> b',
      '1. a\n2. b\n3. c',
      '---\ntitle: Tea\ntags: [a, b]\n---\n\nx',
      'a  \nb',
      'a\\\nb',
      '',
    ]) {
      expect(withLineBreaks(text), text).toBe(text)
    }
  })

  it('stay as they were in a Markdown that was changed, where nobody changed them', () => {
    const before = 'a\nb\nc\n\nd\ne'
    expect(withLineBreaks(before, before)).toBe(before)
    expect(withLineBreaks('a\nnew\nb\nc\n\nd\ne', before)).toBe('a  \nnew  \nb\nc\n\nd\ne')
  })

  it('are changed only once', () => {
    const once = withLineBreaks('a\nb\nc')
    expect(withLineBreaks(once)).toBe(once)
  })
})
