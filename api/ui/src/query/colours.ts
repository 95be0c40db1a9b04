/** colour returns the colour of the nth series. Light and dark pages have their own, so that each has enough contrast. */
export function colour(n: number, dark: boolean): string {
  const hues = [200, 25, 140, 280, 350, 55, 172, 310, 95, 230];
  const round = Math.floor(n / hues.length);
  const hue = (hues[n % hues.length] + round * 13) % 360;
  const light = dark ? 66 - (round % 3) * 7 : 40 + (round % 3) * 7;
  return `hsl(${hue} ${dark ? 70 : 68}% ${light}%)`;
}
