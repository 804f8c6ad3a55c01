import { describe, expect, it } from 'vitest'
import { BLOCK_LENGTH_MAX, blocksOf, mixesDirectionsTooOften, partsOf, TEXT_SHOWN_BYTES_MAX, textOf } from './text.ts'

describe('a text', () => {
  it('is shown whole when it is short', async () => {
    expect(await textOf(new Blob(['grüße']))).toEqual({ text: 'grüße', cut: null })
    expect(await textOf(new Blob([Uint8Array.of(0xff, 0xfe, 0xfc, 0)]))).toEqual({ text: 'ü', cut: null })
  })

  it('is shown from its start when it is long, with a note', async () => {
    const { text, cut } = await textOf(new Blob(['x', 'ü'.repeat(TEXT_SHOWN_BYTES_MAX / 2)]))
    expect(text).toHaveLength(TEXT_SHOWN_BYTES_MAX / 2)
    expect(text.endsWith('ü')).toBe(true)
    expect(cut).toBe('This is the first 4 MiB of 4 MiB. Save the file to read the rest.')
  })
})

describe('the blocks of a text', () => {
  it('are split between lines', () => {
    const lines = Array.from({ length: 3000 }, (_, i) => `line ${i}`).join('\n')
    const blocks = blocksOf(lines)
    expect(blocks.length).toBeGreaterThan(1)
    expect(blocks.join('\n')).toBe(lines)
    expect(Math.max(...blocks.map(({ length }) => length))).toBeLessThanOrEqual(BLOCK_LENGTH_MAX)
  })

  it('are whole lines, also long ones, whose parts do not split a character', () => {
    const line = `x${'🔥'.repeat(BLOCK_LENGTH_MAX)}`
    for (const text of [line, `a\n${line}\n\nb`, `\n${line}`, `${line}\n`]) expect(blocksOf(text).join('\n')).toBe(text)
    expect(blocksOf(`a\n${line}\nb`)).toEqual(['a', line, 'b'])
    expect(partsOf(line).join('')).toBe(line)
    expect(partsOf(line).every((part) => part.isWellFormed() && part.length <= BLOCK_LENGTH_MAX)).toBe(true)
  })

  it('end where the lines of Windows and of an old Mac end', () => {
    expect(blocksOf('a\r\nb\rc\n\r')).toEqual(['a\nb\nc\n\n'])
  })

  it('are a single one for a short text', () => {
    expect(blocksOf('')).toEqual([''])
    expect(blocksOf('a\n\nb')).toEqual(['a\n\nb'])
  })
})

describe('a text with too many direction changes', () => {
  it('changes direction more often than natural text', () => {
    expect(mixesDirectionsTooOften('\u05d0a '.repeat(20_000))).toBe(true)
    expect(mixesDirectionsTooOften('\u05e9\u05dc\u05d5\u05dd '.repeat(50_000))).toBe(false)
    expect(mixesDirectionsTooOften('hello '.repeat(50_000))).toBe(false)
  })
})
