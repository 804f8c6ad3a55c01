// @vitest-environment happy-dom
import { signal } from '@preact/signals'
import type { LiveFeed } from '@watchfire/pages/swarm'
import { render } from 'preact'
import { act } from 'preact/test-utils'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { PageSession } from '../ui/site.ts'
import { LiveView } from './LiveView.tsx'

const FEED: LiveFeed = {
  title: 'Log',
  timeMs: 0,
  entries: [],
  isComplete: true,
  isOurs: false,
  survivesReload: false,
  splitAt: null,
  invalidAt: null,
}

async function shown(
  feed: Partial<LiveFeed>,
  append: () => Promise<void> = () => Promise.reject(new Error('not ours')),
  place: Element = document.createElement('div'),
  watching: number | null = null,
) {
  const counts = signal(watching === null ? null : { watching })
  const session = { cid: 'page', swarm: signal({ append }), counts } as unknown as PageSession
  const content = { kind: 'live', feed: { ...FEED, ...feed }, files: [] } as const
  await act(() => render(<LiveView content={content} session={session} />, place))
  return place
}

describe('a live page', () => {
  beforeEach(() => sessionStorage.clear())

  it('shows the hidden characters of its title and names, so that two names do not look alike', async () => {
    const name = 'hills\u202egpj.exe'
    const entries = [{ number: 1, timeMs: 0, form: 'file', name, path: `1/${name}` }] as const
    const { textContent } = await shown({ title: 'Log\u200b', entries })
    expect(textContent).toContain('Log\ufffd')
    expect(textContent).toContain('hills\ufffdgpj.exe')
  })

  it('says whether its publisher can reload the tab', async () => {
    expect((await shown({ isOurs: true, survivesReload: true })).textContent).toContain('You can reload it')
    expect((await shown({ isOurs: true })).textContent).toContain('After you close or reload it')
    expect((await shown({})).textContent).not.toContain('reload')
  })

  it('says that the writer has left when its reader is alone, and is live again when somebody comes', async () => {
    const place = document.createElement('div')
    const alone = () => shown({}, undefined, place, 1)
    expect((await alone()).textContent).toContain('The writer is not here. No entries can follow')
    expect((await shown({}, undefined, place, 2)).textContent).toContain('Live · ')
    expect(place.textContent).not.toContain('No entries can follow')
    expect((await alone()).textContent).toMatch(/The writer left, and nobody else has been here since \d/)
    expect(place.textContent).not.toContain('Live · ')
    expect((await shown({ isOurs: true }, undefined, document.createElement('div'), 1)).textContent).toContain('Live · ')
  })

  it('adds entries in the format with which it began, until its publisher chooses another', async () => {
    const format = async (name: string) => {
      const entries = [{ number: 1, timeMs: 0, form: name === '' ? 'text' : 'file', name, path: `1/${name}` }] as const
      const place = await shown({ isOurs: true, entries }, undefined, document.body.appendChild(document.createElement('div')))
      return [...place.querySelectorAll<HTMLInputElement>('input[type=radio]')].findIndex(({ checked }) => checked)
    }
    expect([await format(''), await format('entry.md')]).toEqual([0, 1])
  })

  it('keeps what its publisher types while an entry is added', async () => {
    let added = () => {}
    const place = await shown({ isOurs: true }, () => new Promise((resolve) => (added = resolve)))
    const box = place.querySelector('textarea') as HTMLTextAreaElement
    const type = (text: string) =>
      act(() => {
        box.value = text
        box.dispatchEvent(new Event('input', { bubbles: true }))
      })
    await type('Fog')
    await act(() => void place.querySelector('form')?.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true })))
    await type('FogA boat')
    added()
    await vi.waitFor(() => expect(box.value).toBe('A boat'))
  })

  it('has what its publisher typed before a reload, until that is added', async () => {
    const box = async () => (await shown({ isOurs: true }, async () => {})).querySelector('textarea') as HTMLTextAreaElement
    const typed = await box()
    await act(() => {
      typed.value = 'A gull'
      typed.dispatchEvent(new Event('input', { bubbles: true }))
    })
    const again = await box()
    expect(again.value).toBe('A gull')
    await act(() => void again.form?.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true })))
    await vi.waitFor(() => expect(again.value).toBe(''))
    await vi.waitFor(() => expect(sessionStorage.length).toBe(0))
  })

  it('keeps the oldest entry that is shown when newer ones come', async () => {
    const upTo = (last: number) => ({
      entries: Array.from({ length: last }, (_, i) => ({ number: i + 1, timeMs: 0, form: 'text', name: '', path: '' }) as const),
    })
    const numbers = (place: Element) => [...place.querySelectorAll('.feed > li')].map((entry) => entry.getAttribute('value'))
    const place = await shown(upTo(60))
    expect([numbers(place).length, numbers(place).at(-1)]).toEqual([50, '11'])
    await shown(upTo(70), undefined, place)
    expect([numbers(place)[0], numbers(place).at(-1)]).toEqual(['70', '11'])
    await act(() => place.querySelector<HTMLButtonElement>('.live > button')?.click())
    expect(numbers(place)).toHaveLength(70)
  })

  it('is full after 10,000 entries, and says so instead of taking more', async () => {
    const entries = [{ number: 10_000, timeMs: 0, form: 'text', name: '', path: '' }] as const
    const place = await shown({ isOurs: true, entries })
    expect(place.textContent).toContain('This page is full')
    expect(place.querySelector('form')).toBeNull()
  })

  it('takes files that are dropped, and leaves the cells of a spreadsheet to the field', async () => {
    const added: string[] = []
    const append = ({ name }: { name: string }) => Promise.resolve(void added.push(name))
    const place = await shown({ isOurs: true }, append as () => Promise<void>)
    const file = new File(['x'], 'image.png')
    const paste = Object.assign(new Event('paste', { bubbles: true, cancelable: true }), {
      clipboardData: { files: [file], getData: () => 'a\tb' },
    })
    await act(() => void place.querySelector('textarea')?.dispatchEvent(paste))
    expect([paste.defaultPrevented, added]).toEqual([false, []])
    const dataTransfer = { types: ['Files'], items: [], files: [file], dropEffect: 'none' }
    const drop = Object.assign(new Event('drop', { bubbles: true, cancelable: true }), { dataTransfer })
    await act(() => void window.dispatchEvent(drop))
    await vi.waitFor(() => expect([drop.defaultPrevented, added]).toEqual([true, ['image.png']]))
  })

  it('adds files that are pasted while an entry is added', async () => {
    const added: string[] = []
    const ends: (() => void)[] = []
    const append = ({ name }: { name: string }) => {
      added.push(name)
      return new Promise<void>((resolve) => ends.push(resolve))
    }
    const place = await shown({ isOurs: true }, append as () => Promise<void>)
    const form = place.querySelector('form') as HTMLFormElement
    const paste = (name: string) => {
      const event = new Event('paste', { bubbles: true, cancelable: true })
      Object.assign(event, { clipboardData: { files: [new File(['x'], name)], getData: () => '' } })
      return act(() => void place.querySelector('textarea')?.dispatchEvent(event))
    }
    await paste('first.png')
    await paste('second.png')
    expect(added).toEqual(['first.png', 'second.png'])
    expect(form.getAttribute('aria-busy')).toBe('true')
    for (const end of ends) end()
    await vi.waitFor(() => expect(form.getAttribute('aria-busy')).toBe('false'))
  })
})
