import { describe, expect, it } from 'vitest'
import { draftOf } from './copy-page.ts'

const file = (path: string, text: string) => ({ path, size: text.length, blob: () => Promise.resolve(new Blob([text])) })

describe('the copy of a page', () => {
  it('has the text of a page in the editor again', async () => {
    const { path: _, ...note } = file('', '# Tea')
    expect(await draftOf({ kind: 'file', ...note }, 'tea.md', false)).toMatchObject({ writing: 'markdown', text: '# Tea', files: [] })
    expect(await draftOf({ kind: 'file', ...note }, 'tea.txt', true)).toMatchObject({ writing: 'text', isPrivate: true })
  })

  it('has the other files beside the text', async () => {
    const files = [file('index.md', '![a](a.png)'), file('a.png', 'x')]
    const draft = await draftOf({ kind: 'directory', files, links: 0 }, 'trip', false)
    expect([draft.text, draft.files.map(({ path }) => path)]).toEqual(['![a](a.png)', ['a.png']])
  })

  it('keeps a file that is no text, or a long one, as a file', async () => {
    const { path: _, ...film } = file('', 'x')
    expect((await draftOf({ kind: 'file', ...film }, 'film.mp4', false)).files).toHaveLength(1)
    expect((await draftOf({ kind: 'file', ...film, size: 1 << 20 }, 'long.md', false)).files).toHaveLength(1)
  })
})
