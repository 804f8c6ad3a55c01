import { describe, expect, it } from 'vitest'
import { simulatedPage, SimulatedSwarm } from './simulated-swarm.ts'

const page = await simulatedPage(120)
const HOUR = 3_600_000

describe('a seeker', () => {
  it('loads a page from one holder', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('holder', { have: 'all' })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    // 1.2 MB at 1 MB/s, in rounds of eight blocks and 40 ms.
    expect(seeker.completeAt).toBeLessThan(2000)
    expect(seeker.exchange.counts).toEqual({ unwanted: 0, lies: 0, silences: 0, relieves: 0, ledgerOverflows: 0 })
  })

  it('takes about half from each of two holders', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('one', { have: 'all' })
    swarm.join('two', { have: 'all' })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    const [one, two] = [swarm.received('seeker', 'one'), swarm.received('seeker', 'two')]
    expect(Math.abs(one - two) / (one + two)).toBeLessThan(0.1)
  })

  it('takes more from the faster of two holders', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('fast', { have: 'all', bytesPerMs: 4000 })
    swarm.join('slow', { have: 'all', bytesPerMs: 500 })
    swarm.join('seeker')
    swarm.run(HOUR)
    expect(swarm.received('seeker', 'fast')).toBeGreaterThan(2 * swarm.received('seeker', 'slow'))
  })

  it('drops a liar and completes from the honest', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('liar', { have: 'all', manner: 'liar' })
    swarm.join('honest', { have: 'all' })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    expect([...seeker.dropped]).toEqual([['liar', 'lied']])
    expect(seeker.exchange.counts.lies).toBe(1)
  })

  it('asks another after a second of silence', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('silent', { have: 'all', manner: 'silent' })
    swarm.join('honest', { have: 'all' })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.completeAt).toBeLessThan(4000)
    expect(seeker.exchange.counts.silences).toBeGreaterThan(0)
    expect(seeker.dropped.size).toBe(0)
  })

  it('stays with a slow holder when there is no other', () => {
    const swarm = new SimulatedSwarm(page)
    // A block takes two seconds, so silence is the rule.
    swarm.join('slow', { have: 'all', bytesPerMs: 5 })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    expect(seeker.exchange.counts.unwanted).toBeLessThan(5)
  })

  it('goes on with who is left when a holder leaves', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('leaver', { have: 'all' })
    swarm.join('stayer', { have: 'all' })
    const seeker = swarm.join('seeker')
    swarm.run(400)
    swarm.leave('leaver')
    expect(seeker.walk.isComplete).toBe(false)
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
  })

  it('puts a page together from those who have only parts', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('thirds 0', { have: 'some', holds: (i) => i % 3 === 0 })
    swarm.join('thirds 1', { have: 'some', holds: (i) => i % 3 === 1 })
    swarm.join('thirds 2', { have: 'some', holds: (i) => i % 3 === 2 })
    const seeker = swarm.join('seeker')
    swarm.run(HOUR)
    expect(seeker.walk.isComplete).toBe(true)
    for (const name of ['thirds 0', 'thirds 1', 'thirds 2']) {
      expect(swarm.received('seeker', name)).toBeGreaterThan(300_000)
      expect(swarm.node(name).walk.isComplete).toBe(true)
    }
  })

  it('completes when somebody lights a page it has waited for', () => {
    const swarm = new SimulatedSwarm(page)
    const seeker = swarm.join('seeker')
    swarm.join('other seeker')
    swarm.run(HOUR)
    expect(seeker.walk.progress.blocksDone).toBe(0)
    swarm.join('holder', { have: 'all' })
    swarm.run(2 * HOUR)
    expect(seeker.walk.isComplete).toBe(true)
  })
})

describe('three seekers', () => {
  it('hold different blocks early, and complete though the holder leaves once every block is somewhere', () => {
    const swarm = new SimulatedSwarm(page)
    swarm.join('holder', { have: 'all' })
    const names = ['a', 'b', 'c']
    for (const [i, name] of names.entries()) swarm.join(name, { start: i / 3 })
    swarm.run(HOUR, () => swarm.isSpreadOver(names))
    expect(names.every((name) => swarm.node(name).walk.isComplete)).toBe(false)
    // In step, the holder would have had to send three copies, which takes 3600 ms.
    expect(swarm.now).toBeLessThan(2400)
    swarm.leave('holder')
    swarm.run(2 * HOUR)
    for (const name of names) expect(swarm.node(name).walk.isComplete).toBe(true)
  })

  it('relieve the holder: it sends less than every seeker a copy', () => {
    const swarm = new SimulatedSwarm(page)
    const holder = swarm.join('holder', { have: 'all' })
    for (const [i, name] of ['a', 'b', 'c'].entries()) swarm.join(name, { start: i / 3 })
    swarm.run(HOUR)
    const sent = holder.exchange.peers().reduce((sum, { sentBytes }) => sum + sentBytes, 0)
    expect(sent).toBeLessThan(2.2 * 1_200_000)
  })
})

describe('a crowd', () => {
  it('completes from one slow holder through comings and goings, whatever the dice say', () => {
    for (let seed = 1; seed <= 10; seed++) {
      let state = seed
      const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
      const swarm = new SimulatedSwarm(page)
      swarm.join('holder', { have: 'all', bytesPerMs: 300 })
      swarm.join('liar', { have: 'all', manner: 'liar' })
      swarm.join('silent', { have: 'some', manner: 'silent' })
      const stayers: string[] = []
      for (let i = 0; i < 12; i++) {
        swarm.join(`peer ${i}`, { start: random(), bytesPerMs: 200 + 800 * random() })
        swarm.run(swarm.now + 600 * random())
        if (random() < 0.3) swarm.leave(`peer ${i}`)
        else stayers.push(`peer ${i}`)
      }
      swarm.run(swarm.now + HOUR)
      for (const name of stayers) expect(swarm.node(name).walk.isComplete, `seed ${seed}, ${name}`).toBe(true)
    }
  })
})
