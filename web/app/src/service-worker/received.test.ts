import { beforeEach, expect, it, vi } from 'vitest'
import { putReceived, takeReceived } from './received.ts'

beforeEach(() => {
  const stores = new Map<string, Map<string, Response>>()
  const open = async (name: string) => {
    const stored = stores.get(name) ?? new Map<string, Response>()
    stores.set(name, stored)
    return {
      put: async (path: string, response: Response) => void stored.set(path, response),
      keys: async () => [...stored.keys()],
      match: async (path: string) => stored.get(path),
    }
  }
  vi.stubGlobal('caches', { open, delete: async (name: string) => stores.delete(name) })
  let last: Promise<unknown> = Promise.resolve()
  const request = (_: string, work: () => Promise<unknown>) => (last = last.then(work))
  vi.stubGlobal('navigator', { locks: { request } })
})

const form = (text: string, name: string) => {
  const data = new FormData()
  data.set('text', text)
  data.append('files', new File([name], name))
  return data
}

it('keeps what was shared before, and what is shared while it is taken', async () => {
  await putReceived(form('one', 'a.txt'))
  await putReceived(form('two', 'é/b.txt'))
  const taking = takeReceived()
  await putReceived(form('three', 'c.txt'))
  const { text, files } = await taking
  expect(text).toBe('one\n\ntwo')
  expect(files.map(({ path }) => path)).toEqual(['a.txt', 'é/b.txt'])
  const later = await takeReceived()
  expect([later.text, ...later.files.map(({ path }) => path)]).toEqual(['three', 'c.txt'])
  expect(await takeReceived()).toEqual({ text: '', files: [] })
})

it('keeps all files of a large selection', async () => {
  const data = new FormData()
  for (let n = 0; n < 1001; n++) data.append('files', new File(['x'], `${n}.jpg`))
  await putReceived(data)
  expect((await takeReceived()).files).toHaveLength(1001)
})
