import { describe, expect, it } from 'vitest'
import { withLineBreaks } from './line-breaks.ts'

describe('the lines of a text', () => {
  it('stay lines where Markdown would join them', () => {
    expect(withLineBreaks('roses are red\nviolets are blue')).toBe('roses are red  \nviolets are blue')
    expect(withLineBreaks('> a\n> b')).toBe('> a  \n> b')
    expect(withLineBreaks('- a\n  b')).toBe('- a  \n  b')
    expect(withLineBreaks('```a``` b\nc\nd')).toBe('```a``` b  \nc  \nd')
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
      'a  \nb',
      'a\\\nb',
      '',
    ]) {
      expect(withLineBreaks(text), text).toBe(text)
    }
  })

  it('are changed only once', () => {
    const once = withLineBreaks('a\nb\nc')
    expect(withLineBreaks(once)).toBe(once)
  })
})
