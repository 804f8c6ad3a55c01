import { describe, expect, it } from 'vitest'
import { simulatedPage, SimulatedSwarm } from './simulated-swarm.ts'

const page = await simulatedPage(120)
const HOUR = 3_600_000

describe('a leecher', () => {
  it('loads a page from one seeder', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('holder', { isProvider: true })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    // 1.2 MB at 1 MB/s, in rounds of eight blocks and 40 ms.
    expect(seeker.completeAt).toBeLessThan(2000)
    expect(seeker.exchange.totals).toMatchObject({ unsolicitedBlocks: 0, endgameRequests: 0, silentRequests: 0 })
    // A short block may be the answer to a want-have and cross the want-block for it.
    expect(seeker.exchange.totals.duplicateBytes).toBeLessThan(10_000)
  })

  it('takes about half from each of two seeders', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('one', { isProvider: true })
    swarm.join('two', { isProvider: true })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    const [one, two] = [swarm.received('seeker', 'one'), swarm.received('seeker', 'two')]
    expect(Math.abs(one - two) / (one + two)).toBeLessThan(0.1)
  })

  it('takes more from the faster of two seeders', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('fast', { isProvider: true, bytesPerMs: 4000 })
    swarm.join('slow', { isProvider: true, bytesPerMs: 500 })
    swarm.join('seeker')
    swarm.run(HOUR)
    expect(swarm.received('seeker', 'fast')).toBeGreaterThan(2 * swarm.received('seeker', 'slow'))
  })

  it('drops a peer that sends wrong data, and completes from honest peers', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('liar', { isProvider: true, manner: 'liar' })
    swarm.join('honest', { isProvider: true })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    expect([...seeker.dropped]).toEqual([['liar', 'forged-blocks']])
    expect(seeker.exchange.totals.unsolicitedBlocks).toBeGreaterThan(0)
  })

  it('requests blocks from another peer after a second of silence', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('silent', { isProvider: true, manner: 'silent' })
    swarm.join('honest', { isProvider: true })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.completeAt).toBeLessThan(4000)
    expect(seeker.exchange.totals.duplicateBlocks).toBe(0)
    expect(seeker.dropped.size).toBe(0)
  })

  it('stays with a slow seeder if there is no other', () => {
    const swarm = new SimulatedSwarm(page)
    // A block takes two seconds, so long silence is normal.
    swarm.join('slow', { isProvider: true, bytesPerMs: 5 })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    expect(seeker.exchange.totals.duplicateBlocks).toBeLessThan(5)
  })

  it('continues with the remaining peers when a seeder leaves', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('leaver', { isProvider: true })
    swarm.join('stayer', { isProvider: true })
    const seeker = swarm.join('seeker')
    swarm.run(400)
    swarm.leave('leaver')
    expect(seeker.walk.isComplete).toBe(false)
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
  })

  it('completes a page from peers that have only parts', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('thirds 0', { holds: (i) => i % 3 === 0 })
    swarm.join('thirds 1', { holds: (i) => i % 3 === 1 })
    swarm.join('thirds 2', { holds: (i) => i % 3 === 2 })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    for (const name of ['thirds 0', 'thirds 1', 'thirds 2']) {
      expect(swarm.received('seeker', name)).toBeGreaterThan(250_000)
      expect(swarm.node(name).walk.isComplete).toBe(true)
    }
  })

  it('completes when a seeder joins later', () => {
    const swarm = new SimulatedSwarm(page)
    const seeker = swarm.join('seeker')
    swarm.join('other seeker')
    swarm.run(HOUR)
    expect(seeker.walk.progress.blocksDone).toBe(0)
    swarm.join('holder', { isProvider: true })
    swarm.run(2 * HOUR)
    expect(seeker.walk.isComplete).toBe(true)
  })
})

describe('three leechers', () => {
  it('get different blocks first, and complete although the seeder leaves once every block was sent', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('holder', { isProvider: true })
    const names = ['a', 'b', 'c']
    for (const [i, name] of names.entries()) swarm.join(name, { seed: i + 1 })
    swarm.run(HOUR, () => swarm.isSpreadOver(names))
    expect(names.every((name) => swarm.node(name).walk.isComplete)).toBe(false)
    // If the leechers got the same blocks, the seeder would have to send three copies, which takes 3600 ms.
    expect(swarm.now).toBeLessThan(2400)
    swarm.leave('holder')
    swarm.run(2 * HOUR)
    for (const name of names) expect(swarm.node(name).walk.isComplete).toBe(true)
  })

  it('exchange blocks, so that the seeder sends less than one copy to each', () => {
    const swarm = new SimulatedSwarm(page)
    const holder = swarm.join('holder', { isProvider: true })
    for (const [i, name] of ['a', 'b', 'c'].entries()) swarm.join(name, { seed: i + 1 })
    swarm.run(HOUR)
    const sent = holder.exchange.totals.bytesOut
    expect(sent).toBeLessThan(2.2 * 1_200_000)
  })
})

describe('many leechers', () => {
  it('complete from one slow seeder although peers join and leave, for any seed', () => {
    for (let seed = 1; seed <= 3; seed++) {
      let state = seed
      const random = () => {
        state = (state * 48_271) % 2_147_483_647
        return state / 2_147_483_647
      }
      const swarm = new SimulatedSwarm(page)
      swarm.join('holder', { isProvider: true, bytesPerMs: 300 })
      swarm.join('liar', { isProvider: true, manner: 'liar' })
      swarm.join('silent', { manner: 'silent' })
      const stayers: string[] = []
      for (let i = 0; i < 12; i++) {
        swarm.join(`peer ${i}`, { seed: 1 + Math.floor(1e9 * random()), bytesPerMs: 200 + 800 * random() })
        swarm.run(swarm.now + 600 * random())
        if (random() < 0.3) swarm.leave(`peer ${i}`)
        else stayers.push(`peer ${i}`)
      }
      swarm.run(swarm.now + HOUR)
      for (const name of stayers) expect(swarm.node(name).walk.isComplete, `seed ${seed}, ${name}`).toBe(true)
    }
  })
})
