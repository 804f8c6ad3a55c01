import { describe, expect, it } from 'vitest'
import { tabTitle } from './title.ts'

describe('the title of a tab', () => {
  const face = { availability: 'available', name: 'tea.md', percent: null, unseen: 0 } as const

  it('counts what came while nobody looked', () => {
    expect(tabTitle({ ...face, unseen: 3 })).toBe('(3) tea.md · Watchfire')
    expect(tabTitle(face)).toBe('tea.md · Watchfire')
  })

  it('shows the progress while it loads', () => {
    expect(tabTitle({ ...face, availability: 'loading', percent: 42 })).toBe('42% tea.md · Watchfire')
    expect(tabTitle({ ...face, availability: 'loading' })).toBe('tea.md · Watchfire')
  })

  it('shows that a page is unavailable', () => {
    expect(tabTitle({ ...face, availability: 'unavailable', name: null })).toBe('Unavailable: A page · Watchfire')
  })
})
