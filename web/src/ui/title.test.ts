import { describe, expect, it } from 'vitest'
import { tabTitle } from './title.ts'

describe('the title of a tab', () => {
  const face = { fire: 'lit', name: 'tea.md', percent: null, watching: null } as const

  it('counts those who watch a lit page', () => {
    expect(tabTitle({ ...face, watching: 3 })).toBe('(3) tea.md · Watchfire')
    expect(tabTitle(face)).toBe('tea.md · Watchfire')
  })

  it('counts percent while it loads', () => {
    expect(tabTitle({ ...face, fire: 'kindling', percent: 42 })).toBe('42% tea.md · Watchfire')
    expect(tabTitle({ ...face, fire: 'kindling' })).toBe('tea.md · Watchfire')
  })

  it('says that a page is dark', () => {
    expect(tabTitle({ ...face, fire: 'dark', name: null })).toBe('Dark: A page · Watchfire')
  })
})
