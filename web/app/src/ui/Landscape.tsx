const LIGHTS_MAX = 40
const WIDTH = 1200
const STEP = 30

/** Hills at the foot of the page, with one light per person or holder. */
export function Landscape({ count }: { count: number }) {
  const lights = Array.from({ length: Math.max(0, Math.min(count, LIGHTS_MAX)) }, (_, i) => placeOf(i))
  return (
    <svg class="landscape" viewBox={`0 0 ${WIDTH} 150`} preserveAspectRatio="xMidYMax slice" aria-hidden="true">
      <path class="far" d={hills(farHeight)} />
      {lights
        .filter(({ far }) => far)
        .map(({ x }) => (
          <circle key={x} cx={x} cy={farHeight(x) - 1} r="1.8" />
        ))}
      <path class="near" d={hills(nearHeight)} />
      {lights
        .filter(({ far }) => !far)
        .map(({ x }) => (
          <circle key={x} cx={x} cy={nearHeight(x) - 1} r="2.6" />
        ))}
    </svg>
  )
}

/** The golden ratio spreads any number of lights evenly, from the middle out. */
function placeOf(i: number): { x: number; far: boolean } {
  const spread = (0.5 + i * 0.618034) % 1
  return { x: Math.round((0.5 + (spread - 0.5) * Math.min(0.96, 0.3 + i * 0.08)) * WIDTH), far: i % 3 === 1 }
}

function farHeight(x: number): number {
  return 62 + 26 * Math.sin(x / 150 + 1) + 11 * Math.sin(x / 61)
}

function nearHeight(x: number): number {
  return 106 + 17 * Math.sin(x / 190 + 4) + 8 * Math.sin(x / 83 + 2)
}

function hills(height: (x: number) => number): string {
  let path = `M0 150`
  for (let x = 0; x <= WIDTH; x += STEP) path += `L${x} ${height(x).toFixed(1)}`
  return `${path}V150z`
}
