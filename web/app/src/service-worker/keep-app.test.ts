// @vitest-environment happy-dom
import { afterEach, expect, it, vi } from 'vitest'
import { keepApp, keptNeighbours } from './keep-app.ts'

const deleted = vi.fn(async () => true)
vi.stubGlobal('caches', { delete: deleted })
afterEach(() => localStorage.clear())

it('the app is forgotten once its server has no neighbours any more', () => {
  localStorage.setItem('watchfire:neighbours', '[{"server":"https://b.example"}]')
  keepApp(undefined, false)
  expect(deleted.mock.calls).toEqual([['watchfire-app']])
  expect(keptNeighbours()).toEqual([])
  // Nothing is kept any more, and nothing is deleted.
  keepApp(undefined, false)
  expect(deleted).toHaveBeenCalledOnce()
})

it('neighbours that are no JSON are none', () => {
  localStorage.setItem('watchfire:neighbours', '[{')
  expect(keptNeighbours()).toEqual([])
})
