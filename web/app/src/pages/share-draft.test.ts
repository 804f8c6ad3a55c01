import { describe, expect, it, vi } from 'vitest'
import type { PageSession, ShareOptions } from '../ui/site.ts'
import { EMPTY_DRAFT, type Draft } from './draft.ts'
import { shareDraft } from './share-draft.ts'

const picture = { path: 'hills.png', blob: new Blob(['hills']) }

/** The content of the page of this draft. */
async function shared(draft: Partial<Draft>) {
  const share = vi.fn((_files: unknown, _options: ShareOptions) => Promise.resolve({} as PageSession))
  const options = { signal: new AbortController().signal, onProgress: () => undefined }
  const { filename } = await shareDraft({ share }, { ...EMPTY_DRAFT, ...draft }, options)
  return { filename, options: share.mock.calls[0]?.[1] }
}

describe('the page of a draft', () => {
  it('is live if it has a title for that, and can begin empty', async () => {
    const { filename, options } = await shared({ liveTitle: ' Harbour log ' })
    expect(filename).toBe('Harbour log')
    expect(options?.live).toEqual({ title: 'Harbour log', entries: [] })
    expect((await shared({ text: 'a' })).options?.live).toBeUndefined()
  })

  it('has a text and each file as entries, or a folder if the text can refer to the files', async () => {
    const names = async (draft: Partial<Draft>) =>
      (await shared({ liveTitle: '', ...draft })).options?.live?.entries.map(({ name }) => name)
    expect(await names({ text: 'Fog', writing: 'text', files: [picture] })).toEqual(['', 'hills.png'])
    expect(await names({ text: '# Fog' })).toEqual(['entry.md'])
    expect(await names({ text: '# Fog ![hills](hills.png)', files: [picture] })).toEqual(['fog'])
  })

  it('is private if the switch is on', async () => {
    expect((await shared({ text: 'a', isPrivate: true })).options?.sealed).toEqual({ name: 'a.md' })
  })
})
