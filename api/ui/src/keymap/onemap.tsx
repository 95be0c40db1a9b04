import { useMemo, useRef } from 'preact/hooks';
import { HeatMap } from '../heat/map';
import { download } from '../lib/download';
import { number, time } from '../lib/format';
import { ErrorBox } from '../parts/errorbox';
import { columnAt, gridOf, keyBytes, rowAt } from './decode';
import type { Point, Window } from './page';
import { panned, scaled } from './span';
import { commonOf, groupsOf, partText, places } from './prefix';
import { type KeyMap, metrics } from './types';

const height = 480;

/** labelGap is the least distance of labels, in pixels. */
const labelGap = 17;

/** OneMap shows the map of one metric with the names of its key ranges. */
export function OneMap({ map, title: given, brightness, top, timeOnly, point, move, pin, show, out }: {
  map: KeyMap;
  /** title is the heading; without one, it is the name of the load. */
  title?: string;
  brightness: number;
  /** top is the value of the brightest colour; 0 takes the largest value of the map. */
  top?: number;
  /** timeOnly says that the cursor is in another map with other keys, so only its time counts. */
  timeOnly?: boolean;
  point: Point | null;
  move: (p: Point | null) => void;
  pin: (p: Point) => void;
  show: (w: Partial<Window>) => void;
  out: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const decoded = useMemo(() => decode(map), [map]);
  if (decoded instanceof Error) return <ErrorBox error={decoded} />;
  const { grid, starts, groups, borders, common } = decoded;
  if (!grid.cols || !grid.rows) return <p class="quiet">The server has counted nothing in this window yet.</p>;
  const save = () => box.current?.querySelector('canvas')?.toBlob((b) => b && download(`${map.metric}.png`, 'image/png', b));
  const cell = point && { c: columnAt(map.columns, point.at), r: timeOnly ? -1 : rowAt(starts, keyBytes(point.start)) };
  const pointAt = ({ c, r }: { c: number; r: number }): Point => ({ at: (map.columns[c] + map.columns[c + 1]) / 2, start: map.rows[r].start });
  const keyAfter = (r: number) => map.rows[r + 1]?.start ?? '';
  const title = given ?? metrics[map.metric] ?? map.metric;
  const first = map.columns[0];
  const last = map.columns[map.columns.length - 1];
  return (
    <section class="keymap" aria-label={title}>
      <h2>{title} <span class="quiet">{map.unit}, at most {number(map.max)}{map.approximate && ', approximate'}</span></h2>
      {map.max === 0 && <p class="quiet">The server counted nothing in this window. Choose another load or a longer time.</p>}
      {common.length > 1 && <p class="quiet">All of these keys begin with {common.filter((l) => l !== 'tenant:default').map(partText).join(', ')}.</p>}
      <div class="withlabels" ref={box}>
        <div class="prefixes" style={{ height: `${height - 64}px` }}>
          {places(groups, grid.rows, labelGap / (height - 64)).map(({ group, top }) => (
            <button key={group.from} type="button" class="plain" title={`Show only ${group.text}`} style={{ top: `${top * 100}%` }}
              onClick={() => show({ startKey: map.rows[group.from].start, endKey: keyAfter(group.to - 1) })}>
              {group.text}
            </button>
          ))}
        </div>
        <HeatMap label={`Heat map: ${title}. Arrow keys move over cells, Enter shows details, plus and minus zoom, < and > move in time, Escape shows all. The table below lists the hottest ranges.`}
          grid={grid} times={map.columns} rowSums={map.rowTotals} colSums={map.colTotals} borders={borders} missing={map.missing}
          brightness={brightness} top={top} height={height} cursor={cell} move={(at) => move(at && pointAt(at))} pin={(at) => pin(pointAt(at))} out={out}
          scale={(factor, around) => show(scaled(first, last, factor, around, Date.now() / 1000))} pan={(by) => show(panned(first, last, by, Date.now() / 1000))}
          zoom={({ from, to }) => show({
            start: map.columns[from.c], end: map.columns[to.c + 1], startKey: map.rows[from.r].start, endKey: keyAfter(to.r),
          })} />
      </div>
      <p class="readout mono" aria-live="polite">
        {cell && timeOnly ? time(map.columns[cell.c] * 1000) : cell ? `${time(map.columns[cell.c] * 1000)}  ${number(grid.values[cell.c * grid.rows + cell.r])} ${map.unit}  ${map.rows[cell.r].labels.join(' ') || map.rows[cell.r].key}`
          : 'Move over the map to read cells. Click for details. Drag a box to zoom; Ctrl and the wheel zoom in time, Shift and the wheel move.'}
      </p>
      <div class="bar"><button type="button" onClick={save}>Download PNG</button></div>
    </section>
  );
}

function decode(map: KeyMap) {
  try {
    const groups = groupsOf(map.rows);
    return {
      grid: gridOf(map), starts: map.rows.map((r) => keyBytes(r.start)), groups, common: commonOf(map.rows),
      borders: groups.map((g) => g.from).filter((r) => r > 0),
    };
  } catch (error) {
    return error as Error;
  }
}
