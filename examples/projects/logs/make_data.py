"""Makes raw/ and gateway/: eight weather stations, two hundred hours each, every station with a trouble of its own."""

import datetime
import pathlib

START = datetime.datetime(2025, 3, 3)
HOURS = 200


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def wiggle(self, width):
        return (self.below(2001) - 1000) / 1000 * width


def hour_rows(number, rng):
    for hour in range(HOURS):
        time = START + datetime.timedelta(hours=hour)
        day = abs((time.hour + 6) % 24 - 12) / 12
        temperature = round(4 + number * 0.7 + 8 * (1 - day) + rng.wiggle(0.8), 1)
        humidity = min(100, max(20, round(85 - 3 * temperature + rng.wiggle(6))))
        wind = round(max(0.1, 3 + rng.wiggle(2.9)), 1)
        yield [time, temperature, humidity, wind]


def troubled(station, rows):
    out = []
    for index, (time, temperature, humidity, wind) in enumerate(rows):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
        t, h, w = f"{temperature:.1f}", str(humidity), f"{wind:.1f}"
        if station == "ST-01" and 60 <= index < 110:
            t = t.replace(".", ",")
        if station == "ST-02" and index >= 120:
            t = f"{temperature * 9 / 5 + 32:.1f}"
        if station == "ST-03" and 40 <= index < 71:
            t = "6.3"
        if station == "ST-04":
            stamp = (time + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S+01:00")
        if station == "ST-05" and index % 17 == 3:
            out.append(f"{stamp},{station},{t},{h},{w}")
        if station == "ST-06" and index in {31, 77, 78, 140}:
            t = "-999"
        if station == "ST-07" and 90 <= index < 97:
            continue
        if station == "ST-08" and index >= 150:
            w = f"{wind * 3.6:.1f}"
        out.append(f"{stamp},{station},{t},{h},{w}")
    return out


def gateway_log(rng):
    for hour in range(HOURS):
        time = START + datetime.timedelta(hours=hour)
        for number in range(1, 9):
            station = f"ST-{number:02d}"
            minute = rng.below(5)
            stamp = (time + datetime.timedelta(minutes=minute, seconds=number)).strftime("%Y-%m-%d %H:%M:%S")
            if station == "ST-07" and 90 <= hour < 97:
                yield f"{stamp} WARN  gw-2 {station} no answer after 3 tries (errno 110)"
            elif station == "ST-05" and hour % 17 == 3:
                yield f"{stamp} WARN  gw-1 {station} ack lost, sending again seq={hour}"
                yield f"{stamp} INFO  gw-1 {station} stored seq={hour}"
            elif station == "ST-02" and hour == 119:
                yield f"{stamp} INFO  gw-1 {station} firmware 2.1.9 -> 2.2.0, settings reset"
            elif station == "ST-08" and hour == 149:
                yield f"{stamp} INFO  gw-2 {station} firmware 2.1.9 -> 2.2.0, settings reset"
            elif station == "ST-06" and hour in {31, 77, 78, 140}:
                yield f"{stamp} ERROR gw-2 {station} sensor bus timeout, code E17"
            elif rng.below(4) == 0:
                yield f"{stamp} INFO  gw-{1 + number % 2} {station} stored seq={hour}"


def main():
    raw, gateway = pathlib.Path("raw"), pathlib.Path("gateway")
    raw.mkdir()
    gateway.mkdir()
    for number in range(1, 9):
        station = f"ST-{number:02d}"
        lines = troubled(station, hour_rows(number, Lcg(number)))
        raw.joinpath(f"{station}.csv").write_text("time,station,temperature,humidity,wind\n" + "\n".join(lines) + "\n")
    gateway.joinpath("gateway.log").write_text("\n".join(gateway_log(Lcg(99))) + "\n")


if __name__ == "__main__":
    main()
