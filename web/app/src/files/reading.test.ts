import { expect, it } from 'vitest'
import { Turns } from './reading.ts'

it('a load waits for its turn, and is left out when nobody wants it any more', async () => {
  const turns = new Turns(2)
  const { signal } = new AbortController()
  const gone = new AbortController()
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const load = (name: string, wanted = signal) =>
    turns.take(() => {
      started.push(name)
      return new Promise<void>((resolve) => ends.set(name, resolve))
    }, wanted)
  const [a, b] = [load('a'), load('b')]
  const left = load('left', gone.signal).then(
    () => 'loaded',
    () => 'left out',
  )
  const c = load('c')
  gone.abort()
  expect(started).toEqual(['a', 'b'])
  ends.get('a')?.()
  await a
  expect(await left).toBe('left out')
  await Promise.resolve()
  ends.get('b')?.()
  await b
  ends.get('c')?.()
  await c
  expect(started).toEqual(['a', 'b', 'c'])
})
