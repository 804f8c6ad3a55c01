import { describe, expect, it } from 'vitest'
import type { PageContent } from '../ui/site.ts'
import { bundle } from './bundle.ts'
import { draftOf } from './copy-page.ts'
import { shareDraft } from './share-draft.ts'

type Bytes = string | Uint8Array<ArrayBuffer>

const file = (path: string, content: Bytes) => {
  const blob = new Blob([content])
  return { path, size: blob.size, blob: () => Promise.resolve(blob) }
}
const single = (content: Bytes): PageContent => ({ kind: 'file', ...file('', content) })
const directory = (...files: ReturnType<typeof file>[]): PageContent => ({ kind: 'directory', files, links: 0 })
const latin = (text: string) => Uint8Array.from(text, (sign) => sign.charCodeAt(0))

/** The files of the page that a copy becomes, with a character for each byte. */
async function copied(content: PageContent, name: string | null, change = (text: string) => text) {
  const draft = await draftOf(content, name, false)
  const { files, isDirectory, filename } = bundle({ ...draft, text: change(draft.text) })
  const read = async ({ path, blob }: (typeof files)[number]) => [path, String.fromCharCode(...new Uint8Array(await blob.arrayBuffer()))]
  return { files: Object.fromEntries(await Promise.all(files.map(read))), isDirectory, filename }
}

describe('the copy of a page', () => {
  it('has the text of a page in the editor again', async () => {
    expect(await draftOf(single('# Tea'), 'tea.md', false)).toMatchObject({ writing: 'markdown', text: '# Tea', files: [] })
    expect(await draftOf(single('# Tea'), 'tea.txt', true)).toMatchObject({ writing: 'text', isPrivate: true })
  })

  it('has the other files beside the text', async () => {
    const draft = await draftOf(directory(file('index.md', '![a](a.png)'), file('a.png', 'x')), 'trip', false)
    expect([draft.text, draft.files.map(({ path }) => path)]).toEqual(['![a](a.png)', ['a.png']])
  })

  it('keeps a file that is no text, or a long one, as a file', async () => {
    expect((await draftOf(single('x'), 'film.mp4', false)).files).toHaveLength(1)
    expect((await draftOf(single('x'.repeat(1 << 20)), 'long.md', false)).files).toHaveLength(1)
    expect((await draftOf(single('\x89PNG\r\n\x1a\n'), null, false)).text).toBe('')
  })

  it.each<[string, string | null, Bytes]>([
    ['Markdown whose lines are joined', 'a.md', 'one\ntwo\n'],
    ['line ends of Windows', 'a.txt', 'one\r\ntwo\r\n'],
    ['a byte order mark', 'a.txt', '\ufeffone'],
    ['HTML that declares its encoding', 'a.html', latin('<meta charset="windows-1252"><p>caf\xe9')],
    ['a text without a name', null, 'one\ntwo'],
    ['a picture without a name', null, latin('\x89PNG\r\n\x1a\n\0\0')],
  ])('has the same bytes while nobody changes it: %s', async (_, name, bytes) => {
    const expected = String.fromCharCode(...(typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes))
    const { files, isDirectory } = await copied(single(bytes), name)
    expect([Object.values(files), isDirectory]).toEqual([[expected], false])
  })

  it('has the same paths and names while nobody changes it', async () => {
    expect(await copied(directory(file('a/README.md', 'x'), file('a/b.png', 'y')), 'trip')).toEqual({
      files: { 'a/README.md': 'x', 'a/b.png': 'y' },
      isDirectory: true,
      filename: 'trip',
    })
    expect((await copied(directory(file('README.md', 'x\ny')), null)).files).toEqual({ 'README.md': 'x\ny' })
    expect((await copied(single('x'), 'Notes.markdown')).filename).toBe('Notes.markdown')
  })

  it('is changed where the person changes it, and nowhere else', async () => {
    const add = (text: string) => `${text}three\nfour`
    expect((await copied(single('one\r\ntwo\r\n'), 'a.md', add)).files).toEqual({ 'a.md': 'one\r\ntwo  \r\nthree  \r\nfour' })
    const html = latin('<meta charset="windows-1252"><p>caf\xe9')
    const { files } = await copied(single(html), 'a.html', (text) => `${text}!`)
    // The mark of UTF-8 comes before the declaration.
    expect(files['a.html']).toBe('\xef\xbb\xbf<meta charset="windows-1252"><p>caf\xc3\xa9!')
    expect(Object.keys((await copied(directory(file('README.md', 'x')), 'trip', () => '')).files)).toEqual([])
  })

  it('of a live page is a live page with the same entries', async () => {
    const files = [file('1/text.txt', 'one'), file('2/entry.md', '# two'), file('10/trip/a', 'x'), file('10/trip/b', 'y')]
    const feed = {
      title: 'Match',
      timeMs: 0,
      entries: [],
      isComplete: true,
      isOurs: false,
      survivesReload: false,
      splitAt: null,
      invalidAt: null,
    }
    const draft = await draftOf({ kind: 'live', feed, files }, 'Match', false)
    let shared: unknown
    const share = (_: unknown, { live }: { live?: unknown }) => {
      shared = live
      return Promise.reject(new Error('enough'))
    }
    await shareDraft({ share } as never, { ...draft, text: 'more', writing: 'text' }, {} as never).catch(() => undefined)
    expect(shared).toMatchObject({
      title: 'Match',
      entries: [
        { form: 'text', text: 'one' },
        { form: 'file', name: 'entry.md' },
        { form: 'file', name: 'trip', sources: [{ path: 'a' }, { path: 'b' }] },
        { form: 'text', text: 'more' },
      ],
    })
  })
})
